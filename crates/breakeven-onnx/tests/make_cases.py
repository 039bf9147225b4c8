"""Writes the backend tests of the Python package onnx as files, for `cargo xtask onnx`.

Usage: make_cases.py FOLDER. Needs onnx and numpy; writes FOLDER/cases.jsonl and one folder for each case.
"""

import json
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

KINDS = ["node", "simple", "pytorch-operator", "pytorch-converted"]
OURS = {"FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT64", "INT32", "UINT8", "BOOL"}


def types_of(value_type):
    """Names of the element types in a type, with everything that is no tensor under its own name."""
    which = value_type.WhichOneof("value")
    if which == "tensor_type":
        return {TensorProto.DataType.Name(value_type.tensor_type.elem_type)}
    if which in ("sequence_type", "optional_type"):
        return types_of(getattr(value_type, which).elem_type)
    return {str(which)}


def write_value(path, value, port):
    """Writes one input or output in the form that its port has."""
    if isinstance(value, TensorProto):
        message = value
    elif port.type.HasField("map_type"):
        message = numpy_helper.from_dict(value, port.name)
    elif port.type.HasField("sequence_type"):
        message = numpy_helper.from_list(value, port.name)
    elif port.type.HasField("optional_type"):
        message = numpy_helper.from_optional(value, port.name)
    else:
        message = numpy_helper.from_array(np.asarray(value), port.name)
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def write_case(case, folder):
    """Writes the model and its data sets, or copies those that the package ships."""
    if case.model_dir is not None:
        shutil.copytree(case.model_dir, folder)
        return onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(case.model.SerializeToString())
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data)
        for name, values, ports in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
            for index, value in enumerate(values):
                write_value(os.path.join(data, f"{name}_{index}.pb"), value, ports[index])
    return case.model


def describe(case, kind, model):
    """The line of a case in cases.jsonl."""
    ports = list(model.graph.input) + list(model.graph.output)
    types = set().union(*(types_of(port.type) for port in ports))
    return {
        "kind": kind,
        "name": case.name,
        "operator": model.graph.node[0].op_type if model.graph.node else "",
        "ours": types <= OURS,
        "rtol": case.rtol,
        "atol": case.atol,
    }


def main(target):
    warnings.filterwarnings("ignore")
    np.random.seed(0)
    shutil.rmtree(target, ignore_errors=True)
    lines, operators = [], {}
    for kind in KINDS:
        for case in load_model_tests(kind=kind):
            if case.model is None and case.model_dir is None:
                continue
            folder = os.path.join(target, kind, case.name)
            line = describe(case, kind, write_case(case, folder))
            operators[case.name] = line["operator"]
            lines.append(line)
    for line in lines:
        # A case that spells an operator out counts for that operator.
        line["operator"] = operators.get(line["name"].split("_expanded")[0], line["operator"])
    lines.sort(key=lambda line: (line["kind"], line["name"]))
    with open(os.path.join(target, "cases.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{len(lines)} cases of onnx {onnx.__version__}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
