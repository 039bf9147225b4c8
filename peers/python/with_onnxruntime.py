"""ONNX Runtime on the CPU: a model of the one operation, inputs and outputs as values of its own."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from reference import TYPES

OPSET = 20
# The names of the operator, and its attributes.
OPERATORS = {
    "add": ("Add", {}),
    "mul": ("Mul", {}),
    "relu": ("Relu", {}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.01}),
    "elu": ("Elu", {}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "exp": ("Exp", {}),
    "softmax": ("Softmax", {"axis": -1}),
    "log_softmax": ("LogSoftmax", {"axis": -1}),
    "sum": ("ReduceSum", {"keepdims": 0}),
    "mean": ("ReduceMean", {"keepdims": 0}),
    "max": ("ReduceMax", {"keepdims": 0}),
    "dot": ("MatMul", {}),
    "matmul": ("MatMul", {}),
}
THREADS = [1]


def start(threads):
    THREADS[0] = threads


def array(results):
    return results[0].numpy()


class Model:
    """Nodes and constants, added one after the other."""

    def __init__(self):
        self.nodes, self.constants = [], {}

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array)
        return name

    def add(self, op, *inputs, out=None, **attributes):
        out = out or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attributes))
        return out


def encoder(case, arrays):
    model, (layers, heads) = Model(), case.params
    texts, length, width = case.shapes[0]
    linear = lambda x, w, b: model.add("Add", model.add("MatMul", x, model.constant(w.T)), model.constant(b))
    shape = lambda *extents: model.constant(np.array(extents, np.int64))
    split = lambda x, order: model.add("Transpose", model.add("Reshape", x, shape(texts, length, heads, -1)), perm=order)
    norm = lambda x, s, b, out=None: model.add("LayerNormalization", x, model.constant(s), model.constant(b), out=out, epsilon=1e-5)
    x, root = "x0", model.constant(np.array((width // heads) ** 0.5, np.float32))
    for layer in range(layers):
        wq, bq, wk, bk, wv, bv, wo, bo, s1, b1, wi, bi, wf, bf, s2, b2 = arrays[1 + 16 * layer : 17 + 16 * layer]
        q, k = split(linear(x, wq, bq), [0, 2, 1, 3]), split(linear(x, wk, bk), [0, 2, 3, 1])
        weights = model.add("Softmax", model.add("Div", model.add("MatMul", q, k), root), axis=-1)
        seen = model.add("Transpose", model.add("MatMul", weights, split(linear(x, wv, bv), [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = norm(model.add("Add", x, linear(model.add("Reshape", seen, shape(texts, length, width)), wo, bo)), s1, b1)
        inner = model.add("Gelu", linear(x, wi, bi))
        x = norm(model.add("Add", x, linear(inner, wf, bf)), s2, b2, "y" if layer == layers - 1 else None)
    return model.nodes, model.constants


def nodes(case, arrays):
    """The nodes, and their constants."""
    if case.op == "encoder":
        return encoder(case, arrays)
    if case.op == "swish":
        return [helper.make_node("Sigmoid", ["x0"], ["s"]), helper.make_node("Mul", ["x0", "s"], ["y"])], {}
    if case.op == "clip":
        low_high = {"low": np.array(-1, TYPES[case.dtype]), "high": np.array(1, TYPES[case.dtype])}
        return [helper.make_node("Clip", ["x0", "low", "high"], ["y"])], low_high
    if case.op == "layer_norm":
        scale = {"scale": np.ones(case.shapes[0][-1], TYPES[case.dtype])}
        return [helper.make_node("LayerNormalization", ["x0", "scale"], ["y"], axis=-1, epsilon=1e-5)], scale
    if case.op == "conv2d":
        stride, padding, groups = case.params
        sizes = {"strides": [stride] * 2, "pads": [padding] * 4, "group": groups}
        # The weight is a constant, as in a model, so that it may be packed once.
        return [helper.make_node("Conv", ["x0", "x1"], ["y"], **sizes)], {"x1": arrays[1]}
    if case.op not in OPERATORS:
        return None, {}
    name, attributes = OPERATORS[case.op]
    return [helper.make_node(name, [f"x{i}" for i in range(len(arrays))], ["y"], **attributes)], {}


def prepare(case, arrays):
    written, constants = nodes(case, arrays)
    if written is None:
        return None
    kind = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE}[case.dtype]
    taken = {name for node in written for name in node.input}
    given = {f"x{i}": a for i, a in enumerate(arrays) if f"x{i}" in taken and f"x{i}" not in constants}
    graph = helper.make_graph(
        written,
        "race",
        [helper.make_tensor_value_info(name, kind, a.shape) for name, a in given.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS[0]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # its own way of saying that there is no kernel for the type
        return None
    feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in given.items()}
    return lambda: session.run_with_ort_values(["y"], feeds)
