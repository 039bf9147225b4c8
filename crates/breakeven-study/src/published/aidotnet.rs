//! `AiDotNet`'s GPU engine, <https://github.com/ooples/AiDotNet>, against `TorchSharp` and TensorFlow.NET on the CPU.

use super::table::Report;
use crate::Mode;

/// Means, as its BENCHMARKS.md gives them.
pub const TORCH_SHARP: Report = Report {
    id: "published-aidotnet-2025-12-28",
    who: "AiDotNet",
    address: "https://github.com/ooples/AiDotNet/blob/master/BENCHMARKS.md",
    date: "2025-12-28",
    cpu: "AMD Ryzen 7 4800H",
    host: ["torchsharp", "TorchSharp on the CPU"],
    gpu: ["ilgpu", "AMD gfx902, through ILGPU"],
    backend: "ilgpu",
    driver: "not named",
    mode: Mode::Host,
    note: Some("the two sides are different libraries"),
    rows: "
        relu | 1000000 | 0.090 ms | 21.174 ms
        sigmoid | 1000000 | 0.368 ms | 22.408 ms
        sum | 1000000 | 0.052 ms | 11.190 ms
        mean | 1000000 | 0.058 ms | 6.272 ms
        conv2d_16_to_32 | 1x16x64x64 32x16x3x3 | 0.293 ms | 2.662 ms
        matmul | 256x256 | 0.127 ms | 2.429 ms
        matmul | 512x512 | 1.037 ms | 10.166 ms
        add | 100000 | 0.011 ms | 1.574 ms
        mul | 100000 | 0.010 ms | 1.758 ms
        add | 1000000 | 0.661 ms | 8.260 ms
        mul | 1000000 | 0.655 ms | 8.142 ms",
};

/// The other table of that page: the same operations against another library.
pub const TENSORFLOW: Report = Report {
    id: "published-aidotnet-2025-12-28-tensorflow",
    host: ["tensorflow", "TensorFlow.NET on the CPU"],
    rows: "
        relu | 1000000 | 1.116 ms | 19.596 ms
        sigmoid | 1000000 | 1.518 ms | 20.100 ms
        sum | 1000000 | 0.354 ms | 12.078 ms
        mean | 1000000 | 0.224 ms | 8.441 ms
        conv2d_16_to_32 | 1x16x64x64 32x16x3x3 | 0.572 ms | 2.782 ms
        matmul | 256x256 | 0.385 ms | 2.121 ms
        matmul | 512x512 | 1.802 ms | 40.753 ms
        add | 100000 | 0.261 ms | 3.088 ms
        mul | 100000 | 0.181 ms | 1.628 ms
        add | 1000000 | 1.445 ms | 7.953 ms
        mul | 1000000 | 1.398 ms | 8.052 ms",
    ..TORCH_SHARP
};
