"""NumPy as its users write it: results are new arrays."""

import math

import numpy as np


def start(_threads):
    """OpenBLAS reads its number of threads from the environment."""


def array(result):
    return np.asarray(result)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def layer_norm(x):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(1e-5))


TANH_SCALE = np.float32(math.sqrt(2 / math.pi))

FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, x * np.float32(0.01)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "clip": lambda x: np.clip(x, -1, 1),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "swish": lambda x: x * sigmoid(x),
    "gelu_tanh": lambda x: np.float32(0.5) * x * (1 + np.tanh(TANH_SCALE * (x + np.float32(0.044715) * x * x * x))),
    "exp": np.exp,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "dot": np.dot,
    "matmul": np.matmul,
}


def prepare(case, arrays):
    f = FUNCTIONS.get(case.op)
    return f and (lambda: f(*arrays))
