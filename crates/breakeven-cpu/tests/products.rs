//! Matrix products of floats by every way they are made, on every instruction set: right within a bound that follows from
//! their terms, and the same bit by bit for any number of threads, whether operands are packed or read where they lie.

mod common;

use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Layout, MatMul, Operand, Precision, Row, Scalar, Shape};
use common::{Random, device, run};

/// How an operand lies: as it is read, turned, every other element of more, or backwards.
#[derive(Clone, Copy, Debug)]
enum Lies {
    Dense,
    Turned,
    Apart,
    Backwards,
}

fn operand(dtype: DType, batch: &[usize], (rows, columns): (usize, usize), lies: Lies) -> Operand {
    let shape = |sides: [usize; 2]| -> Shape { batch.iter().copied().chain(sides).collect() };
    let (rank, here) = (batch.len(), shape([rows, columns]));
    let mut layout = Layout::dense(here.clone());
    match lies {
        Lies::Turned => {
            layout = Layout::dense(shape([columns, rows]));
            layout.strides.swap(rank, rank + 1);
            layout.shape = here;
        }
        Lies::Apart => {
            let stored = Layout::dense(shape([rows, 2 * columns]));
            layout.strides = stored.strides;
            layout.strides[rank + 1] = 2;
        }
        Lies::Backwards if rows > 0 => {
            layout.offset = (rows - 1) * layout.strides[rank] as usize;
            layout.strides[rank] = -layout.strides[rank];
        }
        Lies::Dense | Lies::Backwards => {}
    }
    Operand::new(dtype, layout)
}

/// Its elements in row-major order.
fn values(operand: &Operand, bytes: &[u8]) -> Vec<f64> {
    let layout = &operand.layout;
    let mut index = vec![0usize; layout.shape.rank()];
    let mut all = Vec::new();
    for _ in 0..layout.shape.elements() {
        let steps = index.iter().zip(&layout.strides).map(|(&i, &s)| i as isize * s);
        let at = layout.offset as isize + steps.sum::<isize>();
        all.push(Scalar::load(operand.dtype, bytes, at as usize).to_f64());
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < layout.shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    all
}

/// Devices of one, two and three threads for each instruction set: one packs operands where that usually pays, one always and
/// one never.
fn teams() -> Vec<[CpuDevice; 3]> {
    let sets = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    sets.map(|isa| [device(isa, 1), packing(isa, 2, 0), packing(isa, 3, u64::MAX)]).collect()
}

/// A device that packs operands of more than `most` rows or panels.
fn packing(isa: Isa, threads: usize, most: u64) -> CpuDevice {
    let packs = Tuning { pack_rows: most, pack_rows_of_few_sets: most, pack_panels: most, ..Tuning::default() };
    let tuning = Tuning { part_ns: 1.0, wake_ns: 0.0, ..packs };
    CpuDevice::new(CpuOptions { threads: Some(threads), isa: Some(isa), poison: true, tuning, ..CpuOptions::default() })
        .expect("it is available")
}

struct Case {
    dtype: DType,
    batch: Vec<usize>,
    sizes: [usize; 3],
    lie: [Lies; 3],
    fused: bool,
}

/// `max(a b + residual, 0)`.
fn fused(dtype: DType) -> Expr {
    let row = |name| Row::named(name).expect("a row of the table");
    let mut b = ExprBuilder::default();
    let (x, y) = (b.arg(dtype), b.arg(dtype));
    let sum = b.row(row("add"), dtype, &[x, y]);
    let relu = b.row(row("relu"), dtype, &[sum]);
    b.finish(relu)
}

fn check(teams: &[[CpuDevice; 3]], case: &Case) {
    let Case { dtype, batch, sizes: [m, k, n], lie, .. } = case;
    let (m, k, n) = (*m, *k, *n);
    let mut random = Random(1 + (m * 31 + k * 7 + n) as u64);
    let sums = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { *dtype };
    let a = operand(*dtype, batch, (m, k), lie[0]);
    let b = operand(*dtype, batch, (k, n), lie[1]);
    let out = operand(sums, batch, (m, n), lie[2]);
    let post = if case.fused { fused(sums) } else { Expr::identity(sums) };
    let inputs: Vec<Operand> = (1..post.args().len()).map(|_| operand(sums, batch, (m, n), Lies::Dense)).collect();
    let bytes: Vec<Vec<u8>> = [&a, &b].into_iter().chain(&inputs).map(|o| random.fill(o, false)).collect();
    let read: Vec<Vec<f64>> = [&a, &b].into_iter().chain(&inputs).zip(&bytes).map(|(o, b)| values(o, b)).collect();
    let batch = batch.iter().copied().collect();
    let kernel = Kernel::MatMul(MatMul {
        batch,
        m,
        n,
        k,
        a,
        b,
        precision: Precision::Highest,
        post,
        params: Vec::new(),
        inputs,
        out: out.clone(),
    });
    let name = format!("{dtype} {m}x{k}x{n} {lie:?} fused {}", case.fused);
    for team in teams {
        let got: Vec<Vec<u8>> = team.iter().map(|d| run(d, &kernel, &bytes).expect("it runs").remove(0)).collect();
        assert!(got.iter().all(|g| *g == got[0]), "{name}: threads or packing change it on {}", team[0].isa());
        compare(&values(&out, &got[0]), &read, [m, k, n], sums, &format!("{name} on {}", team[0].isa()));
    }
}

/// Each sum may be off by its terms' rounding, and no more than a few units of all their sizes.
fn compare(got: &[f64], read: &[Vec<f64>], [m, k, n]: [usize; 3], sums: DType, name: &str) {
    let epsilon = if sums == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    for (at, &g) in got.iter().enumerate() {
        // Every result of small products, some of large ones.
        if at % (1 + m * n * k / 400_000) != 0 {
            continue;
        }
        let (batch, i, j) = (at / (m * n), at / n % m, at % n);
        let term = |p: usize| read[0][(batch * m + i) * k + p] * read[1][(batch * k + p) * n + j];
        let (sum, size) = (0..k).fold((0.0, 0.0), |(sum, size), p| (sum + term(p), size + term(p).abs()));
        let want = read.get(2).map_or(sum, |residual| (sum + residual[at]).max(0.0));
        let most = epsilon * (2.0 + (k as f64).sqrt()) * (size + want.abs() + 1.0);
        assert!((g - want).abs() <= most, "{name}: {at} is {g}, not {want} within {most}");
    }
}

const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

#[test]
fn any_sizes() {
    let teams = teams();
    let dense = [Lies::Dense; 3];
    let sizes = [
        [1, 1, 1],
        [3, 0, 5],
        [1, 0, 9],
        [0, 4, 4],
        [12, 40, 48],
        [13, 41, 49],
        [8, 33, 95],
        [7, 5, 17],
        [25, 64, 16],
        [31, 1, 31],
        [9, 600, 33],
        [2, 130, 101],
        [70, 129, 65],
        [1, 300, 10],
        [1, 301, 33],
        [1, 77, 130],
        [130, 77, 1],
        [600, 3, 5],
        [5, 3, 600],
    ];
    for dtype in TYPES {
        for sizes in sizes {
            for fused in [false, true] {
                check(&teams, &Case { dtype, batch: Vec::new(), sizes, lie: dense, fused });
            }
        }
    }
}

#[test]
fn any_layout() {
    use Lies::{Apart, Backwards, Dense, Turned};
    let teams = teams();
    let lies = [Dense, Turned, Apart, Backwards];
    for dtype in TYPES {
        for (at, sizes) in [[13, 41, 50], [1, 131, 21], [21, 131, 1], [100, 20, 70]].into_iter().enumerate() {
            for a in lies {
                for b in lies {
                    let lie = [a, b, lies[(at + a as usize + b as usize) % 4]];
                    check(&teams, &Case { dtype, batch: vec![2], sizes, lie, fused: at % 2 == 0 });
                }
            }
        }
    }
}

#[test]
fn few_rows_by_the_columns_of_weights() {
    let teams = teams();
    for dtype in TYPES {
        for sizes in [[2, 40, 9], [16, 70, 130], [13, 600, 64], [33, 9, 200], [48, 130, 400], [5, 0, 90]] {
            for (lie, fused) in [(Lies::Dense, false), (Lies::Backwards, true), (Lies::Apart, false)] {
                check(&teams, &Case { dtype, batch: vec![2], sizes, lie: [lie, Lies::Turned, Lies::Dense], fused });
            }
        }
    }
}

#[test]
fn large_ones_are_packed_once_for_all_rows() {
    let teams = teams();
    for dtype in TYPES {
        for lie in [[Lies::Dense; 3], [Lies::Turned, Lies::Turned, Lies::Dense]] {
            for (sizes, fused) in [([270, 520, 130], false), ([300, 40, 610], true), ([97, 30, 256], false)] {
                check(&teams, &Case { dtype, batch: Vec::new(), sizes, lie, fused });
            }
        }
        let batch = vec![3];
        check(&teams, &Case { dtype, batch, sizes: [260, 30, 100], lie: [Lies::Dense; 3], fused: false });
    }
}

#[test]
fn long_sums_are_made_in_chunks() {
    let teams = teams();
    for dtype in TYPES {
        for sizes in [[33, 5_000, 40], [1, 40_000, 4], [1, 9_000, 70], [4, 33_000, 1], [1, 200_000, 1]] {
            for lie in [[Lies::Dense; 3], [Lies::Turned, Lies::Turned, Lies::Apart]] {
                check(&teams, &Case { dtype, batch: vec![2], sizes, lie, fused: sizes[2] == 40 });
            }
        }
    }
}

#[test]
fn many_small_ones() {
    let teams = teams();
    for dtype in TYPES {
        for (batch, sizes) in [(vec![12], [16, 32, 16]), (vec![2, 20], [32, 32, 32]), (vec![40], [5, 8, 3])] {
            for right in [Lies::Dense, Lies::Turned] {
                let lie = [Lies::Dense, right, Lies::Dense];
                check(&teams, &Case { dtype, batch: batch.clone(), sizes, lie, fused: false });
            }
        }
    }
}
