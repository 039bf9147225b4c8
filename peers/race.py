#!/usr/bin/env python3
"""Races Breakeven against what its users would use instead, on the same work in the same run.

Every contestant is a process of its own; they take turns in short blocks, in an order drawn anew each round, so that all
meet the same weather. Results are checked against f64 before they are timed, and inputs are in memory before. A figure is
the lower quartile of a contestant's blocks, a block's figure that of its samples.
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))

from cases import SUITES  # noqa: E402
from reference import TYPES, difference, inputs, wanted  # noqa: E402

import numpy as np  # noqa: E402

PYTHON = ["numpy", "torch", "onnxruntime"]


class Contestant:
    """A worker process."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, **what):
        """Its answer; it stands still before and after, so that threads that wait by spinning hold no core in others' turns."""
        self.process.send_signal(signal.SIGCONT)
        answer = self.answer(what)
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def answer(self, what):
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else None

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def contestants(arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "OPENBLAS_NUM_THREADS": str(arguments.threads),
                   "RAYON_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    for name in arguments.contestants.split(","):
        if name in PYTHON:
            command = [sys.executable, str(HERE / "python" / "worker.py"), name, str(arguments.threads)]
        else:
            program, *words = name.split("+")
            command = [str(arguments.programs / f"race-{program}"), str(arguments.threads), *words]
            if not os.access(command[0], os.X_OK):
                sys.exit(f"{command[0]} does not exist: run `cargo build --release` in {HERE / 'rust'} first")
        yield Contestant(name, command, environment)


def lower_quartile(values):
    return sorted(values)[len(values) // 4]


def race(case, field, arguments, folder):
    """Seconds of one run for each contestant that takes part; a string for one that does not, or is wrong."""
    arrays = inputs(case)
    paths = [str(folder / f"in{i}") for i in range(len(arrays))]
    for array, path in zip(arrays, paths):
        array.tofile(path)
    result, tolerance = wanted(case, arrays)
    figures, running = {}, []
    for one in field:
        answer = one.ask(do="prepare", case=case.as_json(), inputs=paths)
        if not answer or "cannot" in answer:
            figures[one.name] = "crashed" if not answer else "cannot"
            continue
        out = folder / "out"
        answer = one.ask(do="result", path=str(out))
        error = difference(case, np.fromfile(out, TYPES[case.dtype]), result) if answer else math.inf
        if error > tolerance:
            figures[one.name] = f"wrong: {error:.1e}"
        else:
            running.append(one)
    blocks = {one.name: [] for one in running}
    for _ in range(arguments.rounds):
        for one in random.sample(running, len(running)):
            answer = one.ask(do="block", seconds=arguments.block)
            blocks[one.name].append(lower_quartile(answer["seconds"]))
    figures.update({name: lower_quartile(times) for name, times in blocks.items()})
    return figures


def text(seconds):
    return seconds if isinstance(seconds, str) else f"{seconds * 1e6:.2f}"


def report(case, figures, names, ours):
    numbers = {n: f for n, f in figures.items() if not isinstance(f, str)}
    others = {n: f for n, f in numbers.items() if not n.startswith(ours)}
    best = min(others, key=others.get, default=None)
    ratio = numbers[best] / numbers[ours] if best and ours in numbers else math.nan
    rate = f" {case.flops / numbers[ours] / 1e9:.0f} GFLOP/s" if case.flops and ours in numbers else ""
    cells = "  ".join(f"{text(figures.get(n, '')):>12}" for n in names)
    print(f"{case.name:44} {cells}  {ratio:6.2f}x {best or ''}{rate}", flush=True)
    return {"case": case.name, "seconds": figures, "best": best, "ratio": ratio}


def mean(ratios):
    ratios = [r for r in ratios if not math.isnan(r)]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=[*SUITES, "all"], help="which work")
    parser.add_argument("--only", default="", help="cases whose name contains this; several with commas")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--contestants", default="breakeven,numpy,torch,onnxruntime", help="the first one is ours")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block", type=float, default=0.02, help="seconds")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    parser.add_argument("--programs", type=pathlib.Path, default=HERE / "rust/target/release", help="where the race-* programs are")
    arguments = parser.parse_args()
    cases = [c for name, suite in SUITES.items() if arguments.suite in (name, "all") for c in suite()]
    cases = [c for c in cases if any(word in c.name for word in arguments.only.split(","))]
    field = list(contestants(arguments))
    names = [one.name for one in field]
    print(f"{arguments.threads} threads; microseconds of one call with a new result, lower quartile of {arguments.rounds} blocks; "
          "ratio: the best other one's time over ours\n")
    print(f"{'':44} " + "  ".join(f"{n:>12}" for n in names))
    with tempfile.TemporaryDirectory() as folder:
        rows = [report(case, race(case, field, arguments, pathlib.Path(folder)), names, names[0]) for case in cases]
    for one in field:
        one.end()
    print(f"\ngeometric mean {mean([r['ratio'] for r in rows]):.2f}x of the best other one")
    slower = [r for r in rows if r["ratio"] < 1 / 1.05]
    for row in slower:
        print(f"slower: {row['case']}: {row['ratio']:.2f}x of {row['best']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
