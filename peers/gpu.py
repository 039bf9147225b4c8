"""What PyTorch takes on a CUDA GPU for the work that `cargo run --release -p breakeven-wgpu --example probe` measures,
under the same names: device time in microseconds, lower quartile, TF32 off.

    python peers/gpu.py [--only part-of-a-name]
"""

import argparse

import torch
import torch.nn.functional as F


def time_us(call, seconds=0.4):
    """Lower quartile of the device time of `call`, after half a second at work, since an idle card lowers its clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    spent, warm, times = 0.0, 500.0, []
    while spent < warm + 1e3 * seconds or len(times) < 12:
        start.record()
        call()
        end.record()
        end.synchronize()
        spent += start.elapsed_time(end) + 0.02
        if spent > warm:
            times.append(1e3 * start.elapsed_time(end))
    return sorted(times)[len(times) // 4]


def graphed(call):
    """The same work as one launch: without the host's time for each operation."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def rand(*shape):
    return torch.rand(*shape, device="cuda") - 0.5


def streams():
    for n in (1 << 20, 1 << 24, 1 << 26):
        a, b, out = rand(n), rand(n), torch.empty(n, device="cuda")
        yield f"copy {n}", lambda: out.copy_(a), 8 * n
        yield f"add {n}", lambda: torch.add(a, b, out=out), 12 * n
        yield f"gelu {n}", lambda: F.gelu(a), 8 * n
        yield f"sum {n}", lambda: a.sum(), 4 * n


def rows():
    for rows, length in ((16384, 1024), (131072, 128), (1024, 16384)):
        x = rand(rows, length)
        yield f"softmax {rows}x{length}", lambda: F.softmax(x, -1), 8 * rows * length
        yield f"log_softmax {rows}x{length}", lambda: F.log_softmax(x, -1), 8 * rows * length
        yield f"layer_norm {rows}x{length}", lambda: F.layer_norm(x, (length,)), 8 * rows * length
    a, b, c, d = (rand(16384, 1024) for _ in range(4))
    chain = lambda a, b, c, d: F.softmax(F.gelu(a * b + c) * d, -1)  # noqa: E731
    name, work = "a*b+c, gelu, *d, softmax 16384x1024", 20 * 16384 * 1024
    yield name, lambda: chain(a, b, c, d), work
    compiled = torch.compile(chain)
    yield name + " compiled", lambda: compiled(a, b, c, d), work


def products():
    shapes = [(n, n, n) for n in (1024, 2048, 4096)]
    shapes += [(1, 4096, 4096), (32, 1024, 4096), (128, 384, 384), (2048, 384, 1536), (2048, 1536, 384)]
    shapes += [(4096, 384, 384), (4096, 1536, 384), (16, 384, 1536)]
    shapes += [(1023, 1025, 1027), (4095, 4097, 2049)]
    for m, k, n in shapes:
        a, b = rand(m, k), rand(k, n)
        yield f"matmul {m}x{k}x{n}", lambda: a @ b, 2 * m * k * n
    for m, k, n in [(n, n, n) for n in (1024, 2048, 4096)] + [(2048, 384, 1536), (4096, 384, 384), (4096, 1536, 384), (1024, 8192, 256)]:
        a, b = rand(m, k).half(), rand(k, n).half()
        yield f"matmul f16 {m}x{k}x{n}", lambda: a @ b, 2 * m * k * n
    for batch in (96, 768):
        for m, k, n in ((128, 32, 128), (128, 128, 32)):
            a, b = rand(batch, m, k), rand(batch, k, n)
            yield f"matmul {batch} of {m}x{k}x{n}", lambda: a @ b, 2 * batch * m * k * n
    for (images, channels, outs), side, filter_, stride in (((1, 64, 64), 56, 3, 1), ((32, 3, 64), 224, 7, 2)):
        x, w = rand(images, channels, side, side), rand(outs, channels, filter_, filter_)
        count = -(-side // stride)
        work = 2 * images * outs * count * count * channels * filter_ * filter_
        name = f"conv {images}x{channels}x{side}x{side} {filter_}x{filter_}/{stride} to {outs}"
        yield name, lambda: F.conv2d(x, w, stride=stride, padding=filter_ // 2), work


def attentions():
    for heads, length, width in ((8, 1024, 64), (384, 128, 32)):
        q, k, v = (rand(1, heads, length, width) for _ in range(3))
        work = 4 * heads * length * length * width
        name = f"attention {heads}x{length}x{width}"
        yield name, lambda: F.scaled_dot_product_attention(q, k, v, scale=4.0), work
        composed = lambda: torch.softmax(q @ k.transpose(-1, -2) * 4.0, -1) @ v  # noqa: E731
        yield name.replace("attention", "attention composed"), composed, work


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    for suite, unit in ((streams, "TB/s"), (rows, "TB/s"), (products, "TFLOP/s"), (attentions, "TFLOP/s")):
        for name, call, work in suite():
            if only in name:
                call()
                us = time_us(graphed(call))
                print(f"  {name:<40} {us:>10.1f} us  {work / us / 1e6:>8.2f} {unit}", flush=True)


if __name__ == "__main__":
    main()
