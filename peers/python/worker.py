"""One contestant in Python: `worker.py numpy|torch|onnxruntime THREADS`, commands as JSON lines on standard input.

{"do": "prepare", "case": .., "inputs": [paths]}   reads the inputs and says {"ok": true} or {"cannot": why}
{"do": "result", "path": ..}                       computes once and writes the result's bytes there
{"do": "block", "seconds": ..}                     runs for about so long; says {"seconds": [of one run, by sample]}
"""

import importlib
import json
import sys
import time

import numpy as np

from cases import Case
from reference import TYPES

# A sample is at least so long; short runs are repeated within it.
SAMPLE = 20e-6


def block(run, seconds):
    """Times of one run, each the mean over a sample of at least SAMPLE."""
    begun = time.perf_counter()
    run()
    once = time.perf_counter() - begun
    # The first run of a block finds cold caches, so it says only roughly how many make a sample.
    repeats = max(1, int(SAMPLE / max(once, 1e-8)))
    times = []
    while len(times) < 3 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        taken = time.perf_counter() - start
        if taken < SAMPLE / 2 and not times:
            repeats *= 2
            continue
        times.append(taken / repeats)
    return times


def read(path, shape, dtype):
    return np.fromfile(path, TYPES[dtype]).reshape(shape)


def serve(library, threads):
    contestant = importlib.import_module(f"with_{library}")
    contestant.start(threads)
    run = None
    for line in sys.stdin:
        ask = json.loads(line)
        answer = {"ok": True}
        if ask["do"] == "prepare":
            case = Case(**{**ask["case"], "shapes": tuple(map(tuple, ask["case"]["shapes"])), "params": tuple(ask["case"]["params"])})
            arrays = [read(path, shape, case.dtype) for path, shape in zip(ask["inputs"], case.shapes)]
            run = None
            run = contestant.prepare(case, arrays)
            if run is None:
                answer = {"cannot": f"{library} has no {case.op}"}
        elif ask["do"] == "result":
            contestant.array(run()).tofile(ask["path"])
        elif ask["do"] == "block":
            answer = {"seconds": block(run, ask["seconds"])}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
