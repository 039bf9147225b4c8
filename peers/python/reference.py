"""Inputs and what is right: f64 on NumPy, with the tolerance that the race allows."""

import math

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64}


def inputs(case):
    """Values between -2 and 2 for elementwise work, -1 and 1 for products; the same on every run."""
    rng = np.random.default_rng(7)
    if case.op == "encoder":
        return [weights(rng, at, shape).astype(np.float32) for at, shape in enumerate(case.shapes)]
    reach = 1.0 if case.op in ("matmul", "conv2d", "dot") else 2.0
    return [rng.uniform(-reach, reach, shape).astype(TYPES[case.dtype]) for shape in case.shapes]


def weights(rng, at, shape):
    """Input `at` of an encoder: tokens, then matrices [out, in] that keep the size of what they take, scales near 1, and biases."""
    if at == 0:
        return rng.uniform(-2, 2, shape)
    reach = math.sqrt(3 / shape[1]) if len(shape) == 2 else 0.1
    return rng.uniform(-reach, reach, shape) + ((at - 1) % 16 in (8, 14))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def encoder(x, *rest):
    """Layers of attention and two linear maps with a gelu between, each added to what came in and normalized."""
    (*all_weights, layers, heads), (texts, length, width) = rest, x.shape
    split = lambda y: y.reshape(texts, length, heads, -1).transpose(0, 2, 1, 3)
    for layer in range(layers):
        wq, bq, wk, bk, wv, bv, wo, bo, s1, b1, wi, bi, wf, bf, s2, b2 = all_weights[16 * layer : 16 * layer + 16]
        q, k, v = split(x @ wq.T + bq), split(x @ wk.T + bk), split(x @ wv.T + bv)
        seen = softmax(q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])) @ v
        x = layer_norm(x + seen.transpose(0, 2, 1, 3).reshape(x.shape) @ wo.T + bo) * s1 + b1
        inner = x @ wi.T + bi
        x = layer_norm(x + 0.5 * inner * (1 + erf(inner / math.sqrt(2))) @ wf.T + bf) * s2 + b2
    return x


def conv2d(x, w, stride, padding, groups):
    """Window by window, all places at once."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (n, channels, height, width), (out, per_group, kh, kw) = x.shape, w.shape
    h, v = (height - kh) // stride + 1, (width - kw) // stride + 1
    y = np.zeros((n, groups, out // groups, h, v))
    grouped = x.reshape(n, groups, channels // groups, height, width)
    weight = w.reshape(groups, out // groups, per_group, kh, kw)
    for i in range(kh):
        for j in range(kw):
            seen = grouped[:, :, :, i : i + stride * h : stride, j : j + stride * v : stride]
            y += np.einsum("ngchw,goc->ngohw", seen, weight[..., i, j], optimize=True)
    return y.reshape(n, out, h, v)


FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "clip": lambda x: np.clip(x, -1, 1),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "exp": np.exp,
    "softmax": softmax,
    "log_softmax": lambda x: x - x.max(-1, keepdims=True) - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)),
    "layer_norm": layer_norm,
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "dot": np.dot,
    "matmul": np.matmul,
    "conv2d": conv2d,
    "encoder": encoder,
}


def wanted(case, arrays):
    """The result in f64 and the largest error that counts as right."""
    wide = [a.astype(np.float64) for a in arrays]
    result = np.asarray(FUNCTIONS[case.op](*wide, *case.params))
    epsilon = np.finfo(TYPES[case.dtype]).eps
    # Sums may round once for each halving of their terms, and then some.
    terms = {"matmul": case.shapes[0][-1], "conv2d": math.prod(case.shapes[-1][1:]), "encoder": 1536}.get(case.op, 0)
    if case.op in ("sum", "dot"):
        terms = case.shapes[0][0]
    # As many roundings as terms, of sums that wander as far as their square root.
    return result, epsilon * (16 + 4 * terms)  # bound of a sum in order; a wrong term is far beyond


def difference(case, got, result):
    if got.size != result.size:
        return math.inf
    error = np.abs(got.reshape(-1).astype(np.float64) - result.reshape(-1)) / np.maximum(np.abs(result.reshape(-1)), 1)
    return float(error.max()) if error.size else 0.0
