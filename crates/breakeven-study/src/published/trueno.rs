//! Trueno, <https://github.com/paiml/trueno>: two reports of its GPU against a scalar loop.

use super::table::Report;
use crate::Mode;

const SCALAR: [&str; 2] = ["scalar", "a scalar loop in Rust"];

/// The report of 2025-11-17. It prints the first row as 609 times slower.
pub const NOVEMBER_17: Report = Report {
    id: "published-trueno-2025-11-17",
    who: "Trueno",
    address: "https://github.com/paiml/trueno/blob/main/docs/performance-analysis.md",
    date: "2025-11-17",
    cpu: "AMD Ryzen, not named",
    host: SCALAR,
    gpu: ["wgpu", "a GPU, not named"],
    backend: "wgpu",
    driver: "not named",
    mode: Mode::Host,
    note: None,
    rows: "
        add | 1000 | 52.46 ns | 31.95 ms
        add | 10000 | 856.3 ns | 32.21 ms
        add | 100000 | 9.99 µs | 32.62 ms
        add | 1000000 | 106.3 µs | 54.24 ms
        dot | 1000 | 607 ns | 38.26 ms
        dot | 10000 | 6.30 µs | 34.08 ms
        dot | 100000 | 60.57 µs | 34.51 ms
        dot | 1000000 | 612.9 µs | 57.24 ms
        matmul | 100x100 | 545.1 µs | 38.74 ms
        matmul | 500x500 | 77.54 ms | 38.57 ms
        matmul | 1000x1000 | 650.3 ms | 67.80 ms
        relu | 10000 | 591.5 ns | 33.88 ms
        relu | 100000 | 6.081 µs | 34.27 ms
        relu | 1000000 | 67.04 µs | 55.27 ms
        leaky_relu | 10000 | 585.6 ns | 38.29 ms
        leaky_relu | 100000 | 5.890 µs | 34.26 ms
        leaky_relu | 1000000 | 66.94 µs | 54.90 ms
        elu | 10000 | 24.33 µs | 28.64 ms
        elu | 100000 | 258.8 µs | 18.24 ms
        elu | 1000000 | 2.428 ms | 29.81 ms
        clip | 10000 | 507.1 ns | 14.96 ms
        clip | 100000 | 5.718 µs | 15.77 ms
        clip | 1000000 | 62.07 µs | 25.25 ms
        sigmoid | 10000 | 19.16 µs | 14.48 ms
        sigmoid | 100000 | 191.2 µs | 14.35 ms
        sigmoid | 1000000 | 2.964 ms | 21.99 ms
        tanh | 10000 | 77.86 µs | 13.39 ms
        tanh | 100000 | 455.8 µs | 14.52 ms
        tanh | 1000000 | 1.979 ms | 22.58 ms
        silu | 10000 | 19.69 µs | 14.38 ms
        silu | 100000 | 192.4 µs | 14.34 ms
        silu | 1000000 | 2.970 ms | 22.01 ms
        gelu | 10000 | 76.32 µs | 14.38 ms
        gelu | 100000 | 759.8 µs | 14.34 ms
        gelu | 1000000 | 9.458 ms | 22.04 ms
        softmax | 10000 | 38.85 µs | 14.28 ms
        softmax | 100000 | 385.9 µs | 14.31 ms
        softmax | 1000000 | 4.802 ms | 21.96 ms
        log_softmax | 10000 | 45.71 µs | 14.34 ms
        log_softmax | 100000 | 447.2 µs | 14.38 ms
        log_softmax | 1000000 | 5.551 ms | 22.01 ms",
};

/// The report of 2025-11-23. It prints 241.7 Gelem/s for the matmul of 100x100.
pub const NOVEMBER_23: Report = Report {
    id: "published-trueno-2025-11-23",
    address: "https://github.com/paiml/trueno/blob/main/docs/gpu-benchmark-report-2025-11-23.md",
    date: "2025-11-23",
    cpu: "not named",
    gpu: ["wgpu", "NVIDIA GeForce RTX 4090"],
    driver: "570.195.03",
    rows: "
        matmul | 100x100 | 530.8 µs | 4.14 ms
        matmul | 500x500 | 77.4 ms | 4.59 ms
        matmul | 1000x1000 | 638.7 ms | 7.84 ms
        add | 1000 | 71.0 ns | 3.26 ms
        add | 10000 | 819.0 ns | 3.44 ms
        add | 100000 | 10.06 µs | 3.51 ms
        add | 1000000 | 96.5 µs | 5.98 ms
        dot | 1000 | 567.4 ns | 3.45 ms
        dot | 10000 | 6.30 µs | 3.32 ms
        dot | 100000 | 63.2 µs | 4.81 ms
        dot | 1000000 | 614.1 µs | 6.25 ms
        relu | 10000 | 559.9 ns | 3.49 ms
        relu | 100000 | 6.37 µs | 3.75 ms
        relu | 1000000 | 67.1 µs | 6.03 ms
        sigmoid | 10000 | 20.99 µs | 3.64 ms
        sigmoid | 100000 | 207.4 µs | 3.75 ms
        sigmoid | 1000000 | 3.18 ms | 5.81 ms
        gelu | 10000 | 101.2 µs | 3.60 ms
        gelu | 100000 | 327.0 µs | 3.72 ms
        gelu | 1000000 | 3.19 ms | 5.81 ms
        softmax | 10000 | 29.2 µs | 16.75 ms
        softmax | 100000 | 292.3 µs | 16.26 ms
        softmax | 1000000 | 3.01 ms | 22.79 ms",
    ..NOVEMBER_17
};
