"""Times ONNX Runtime for the example `models`, in turn with it.

Each line on stdin is a folder that `make_models.py` wrote, a tab, and the number of a set; each line on stdout is the seconds
of one run.
"""

import os
import sys
import time

import onnx
import onnxruntime
from onnx import numpy_helper


def inputs(session, folder):
    """The inputs of one set, by name."""
    given = {}
    for index, port in enumerate(session.get_inputs()):
        with open(os.path.join(folder, f"input_{index}.pb"), "rb") as file:
            given[port.name] = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
    return given


def main():
    onnxruntime.set_default_logger_severity(3)
    opened, session, given = None, None, None
    for line in sys.stdin:
        wanted = line.rstrip("\n").split("\t")
        if opened is None or opened[0] != wanted[0]:
            path = os.path.join(wanted[0], "model.onnx")
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        if opened != wanted:
            given = inputs(session, os.path.join(wanted[0], f"test_data_set_{wanted[1]}"))
        opened = wanted
        started = time.perf_counter()
        session.run(None, given)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
