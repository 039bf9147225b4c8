"""What is raced: a case is an operation, the shapes of its inputs and a type. One list, for every contestant."""

from dataclasses import dataclass, field

SIZES = [1_000, 10_000, 100_000, 1_000_000, 16_000_000]
# Rows of softmax and norms.
ROW = 1_000

UNARY = [
    "relu", "leaky_relu", "elu", "clip", "sigmoid", "tanh", "swish", "gelu", "gelu_tanh", "exp",
]
BINARY = ["add", "mul"]
ROWS = ["softmax", "log_softmax", "layer_norm"]
FOLDS = ["sum", "mean", "max"]


@dataclass(frozen=True)
class Case:
    op: str
    shapes: tuple
    dtype: str = "f32"
    # Numbers the operation needs beside its inputs: stride and padding of a convolution.
    params: tuple = field(default=())

    @property
    def name(self):
        # What an encoder takes beside its tokens is the same for all of them.
        shapes = " ".join("x".join(map(str, s)) for s in self.shapes[: 1 if self.op == "encoder" else None])
        numbers = "".join(f" {p}" for p in self.params)
        return f"{self.op} {self.dtype} {shapes}{numbers}"

    def as_json(self):
        return {"op": self.op, "shapes": [list(s) for s in self.shapes], "dtype": self.dtype, "params": list(self.params)}

    @property
    def flops(self):
        """Multiplications and additions of products; 0 elsewhere."""
        if self.op == "matmul":
            (*batch, m, k), n = self.shapes[0], self.shapes[1][-1]
            count = 2 * m * k * n
            for extent in batch:
                count *= extent
            return count
        return 0


def elementwise():
    for n in SIZES:
        for op in BINARY:
            yield Case(op, ((n,), (n,)))
        for op in UNARY:
            yield Case(op, ((n,),))
        for op in ROWS:
            yield Case(op, ((n // ROW, ROW),))
        for op in FOLDS:
            yield Case(op, ((n,),))
        yield Case("dot", ((n,), (n,)))


def products():
    for dtype in ("f32", "f64"):
        for n in (32, 64, 128, 256, 512, 1024, 2048, 4096):
            yield Case("matmul", ((n, n), (n, n)), dtype)
        for m, k, n in ((1, 12544, 1029), (4096, 4096, 1), (17, 1023, 4095), (1, 10000, 10), (256, 65536, 256)):
            yield Case("matmul", ((m, k), (k, n)), dtype)
        yield Case("matmul", ((128, 64, 64), (128, 64, 64)), dtype)
    for m, k, n in ((16, 384, 384), (256, 384, 1536), (4096, 384, 384), (4096, 1536, 384)):
        yield Case("matmul", ((m, k), (k, n)))
    for heads, length, width in ((12, 16, 32), (96, 32, 32), (384, 128, 32)):
        yield Case("matmul", ((heads, length, width), (heads, width, length)))


def convolutions():
    """Input, weight; stride, padding, groups."""
    yield Case("conv2d", ((1, 16, 64, 64), (32, 16, 3, 3)), params=(1, 1, 1))
    yield Case("conv2d", ((1, 64, 56, 56), (64, 64, 3, 3)), params=(1, 1, 1))
    yield Case("conv2d", ((32, 3, 224, 224), (64, 3, 7, 7)), params=(2, 3, 1))
    yield Case("conv2d", ((1, 3, 224, 224), (64, 3, 7, 7)), params=(2, 3, 1))
    yield Case("conv2d", ((1, 64, 56, 56), (64, 1, 3, 3)), params=(1, 1, 64))
    yield Case("conv2d", ((1, 128, 28, 28), (128, 1, 3, 3)), params=(2, 1, 128))
    yield Case("conv2d", ((8, 128, 28, 28), (128, 128, 1, 1)), params=(1, 0, 1))


def encoders():
    """MiniLM without its table of words: layers, heads."""
    width, inner, layers = 384, 1536, 6
    linear = lambda n, m: [(m, n), (m,)]
    layer = [*linear(width, width) * 4, (width,), (width,), *linear(width, inner), *linear(inner, width), (width,), (width,)]
    for texts, length in ((1, 16), (8, 32), (32, 128)):
        yield Case("encoder", ((texts, length, width), *layer * layers), params=(layers, 12))


SUITES = {"elementwise": elementwise, "products": products, "convolutions": convolutions, "encoders": encoders}
