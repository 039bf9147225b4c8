"""What PyTorch takes on a CUDA GPU for the work that `cargo run --release -p breakeven-wgpu --example probe` measures,
under the same names: device time in microseconds, lower quartile, TF32 off.

    python peers/gpu.py [--only part-of-a-name]

What begins and ends in the host's memory is measured by the clock on the wall.
"""

import argparse
import time

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
    shapes = [(n, n, n) for n in (1000, 1024, 2048, 4096)]
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


class Layer(torch.nn.Module):
    """One of MiniLM's six, as PyTorch's users would write it: fused attention, one product for queries, keys and values."""

    def __init__(self, width=384, inner=1536, heads=12):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.inner, self.outer = torch.nn.Linear(width, inner), torch.nn.Linear(inner, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, x, seen):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = self.norms[0](x + self.out(attended.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.outer(F.gelu(self.inner(x))))


class MiniLM(torch.nn.Module):
    """Made-up weights in the shapes of all-MiniLM-L6-v2, from token ids to one vector of length 1 for each text."""

    def __init__(self, words=30522, width=384):
        super().__init__()
        self.words, self.positions = torch.nn.Embedding(words, width), torch.nn.Embedding(512, width)
        self.norm = torch.nn.LayerNorm(width, eps=1e-12)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(6))

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
        seen = mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, seen)
        mask = mask[..., None].float()
        return F.normalize((x * mask).sum(1) / mask.sum(1), dim=-1)


def encoders(only):
    """Token ids in the host's memory to vectors there, as the demo counts it: eager, compiled with CUDA graphs, ONNX Runtime."""
    model = MiniLM().cuda().eval()
    compiled = torch.compile(model, mode="reduce-overhead")
    ways = [("eager", model), ("compiled, CUDA graphs", compiled)]
    for texts, length in ((1, 16), (8, 32), (32, 64), (32, 128)):
        ids = torch.randint(0, 30522, (texts, length))
        mask = torch.ones(texts, length, dtype=torch.long)
        session = runtime(model, ids, mask)
        rows = [(way, lambda m=m: m(ids.cuda(), mask.cuda()).cpu()) for way, m in ways]
        if session:
            rows.append(("ONNX Runtime, CUDA", lambda: session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0]))
        with torch.inference_mode():
            want = model(ids.cuda(), mask.cuda()).cpu()
            for way, call in rows:
                name = f"MiniLM {texts}x{length} {way}"
                if only not in name:
                    continue
                assert torch.allclose(torch.as_tensor(call()), want, atol=1e-5), name
                print(f"  {name:<48} {1e3 * wall(call):>8.2f} ms", flush=True)


def hosted(only):
    """From the host's ordinary memory to there: what `breakeven-bench -- host` and `-- steps` measure."""
    rows = [("relu 1000000", F.relu, (torch.rand(1000, 1000) - 0.5,)), ("matmul 1000", torch.matmul, (torch.rand(1000, 1000), torch.rand(1000, 1000)))]
    for name, function, given in rows:
        name += ", host to host"
        if only not in name:
            continue
        call = lambda: function(*(x.cuda() for x in given)).cpu()  # noqa: E731, B023
        assert torch.allclose(call(), function(*given), atol=1e-3), name
        print(f"  {name:<40} {1e6 * wall(call):>10.1f} us", flush=True)


def wall(call, seconds=1.2):
    """Lower quartile of the second half of what calls take end to end, in seconds."""
    times, begun = [], time.perf_counter()
    while time.perf_counter() < begun + seconds:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    late = sorted(times[len(times) // 2 :])
    return late[len(late) // 4]


def runtime(model, ids, mask):
    """The model in ONNX Runtime on the GPU, or None with a line that says why."""
    try:
        import onnxruntime

        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise ImportError("this onnxruntime has no CUDA provider")
        options = {"input_names": ["ids", "mask"], "output_names": ["vectors"], "dynamo": False}
        torch.onnx.export(model.cpu(), (ids, mask), "/tmp/minilm.onnx", **options)
        session = onnxruntime.InferenceSession("/tmp/minilm.onnx", providers=["CUDAExecutionProvider"])
        assert session.get_providers()[0] == "CUDAExecutionProvider", "it fell back to the CPU"
        return session
    except Exception as why:  # noqa: BLE001
        print(f"  ONNX Runtime on CUDA: not measured, {type(why).__name__}: {str(why)[:150]}")
        return None
    finally:
        model.cuda()


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
    hosted(only)
    if "MiniLM".startswith(only[:6]):
        encoders(only)


if __name__ == "__main__":
    main()
