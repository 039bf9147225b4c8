"""Writes layer.onnx, a small model for the tests of the command line: y = softmax(relu(x @ w + b)). Needs onnx and numpy."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes = [
    helper.make_node("Gemm", ["x", "w", "b"], ["sums"], name="first"),
    helper.make_node("Relu", ["sums"], ["positive"]),
    helper.make_node("Softmax", ["positive"], ["y"], axis=-1),
]
w = np.array([[1, -1, 0.5], [0.5, 2, -0.5]], np.float32)
b = np.array([0, 0.25, 1], np.float32)
graph = helper.make_graph(
    nodes,
    "layer",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "layer.onnx")
