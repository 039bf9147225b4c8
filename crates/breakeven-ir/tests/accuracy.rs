//! How far each row is from the truth, as every kind of device computes it.

mod lanes;

use std::sync::atomic::{AtomicU64, Ordering};

use breakeven_ir::{Family, Kind, MAPS, MapDef, Row, Tolerance};
use lanes::{Block, Double, FLUSHED, FUSED, Single, UNFUSED, call, ulps, unary_rows};

/// The worst error of a row so far.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    /// Units in the last place, of results that are not within the absolute tolerance.
    ulps: f64,
    /// The input it came from.
    at: [f32; 3],
}

impl Worst {
    /// Take in a result; one that is rightly rounded counts as no error.
    fn meet(&mut self, at: [f32; 3], got: f32, want: f64, tolerance: Tolerance) {
        if got.to_bits() == (want as f32).to_bits() {
            return;
        }
        let error = ulps(got, want);
        let is_near = tolerance.abs > 0.0 && (f64::from(got) - want).abs() <= tolerance.abs && error.is_finite();
        if error > self.ulps && !is_near {
            *self = Worst { ulps: error, at };
        }
    }

    fn join(&mut self, other: Worst) {
        if other.ulps > self.ulps {
            *self = other;
        }
    }

    /// Fails when it is more than the row allows; with `--nocapture`, says how much it was.
    fn check(self, name: &str, kind: &str, tolerance: Tolerance) {
        let limit = f64::from(tolerance.ulp).max(0.5);
        println!("{name:14} {kind:8} {:8.3} ULP at {:?}", self.ulps, self.at);
        assert!(self.ulps <= limit, "{name} ({kind}) is off by {} ULP at {:?}", self.ulps, self.at);
    }
}

fn tolerance(name: &str) -> Tolerance {
    Row::named(name.trim_end_matches('_')).expect("a row of the table").tolerance
}

/// A result that comes from denormals may differ where they are flushed.
fn may_flush(args: &[f32], want: f64) -> bool {
    let small = f64::from(f32::MIN_POSITIVE) * 1.000_001;
    want.abs() <= small || args.iter().any(|x| f64::from(x.abs()) < small && *x != 0.0)
}

/// Special values, powers of two and thresholds with their neighbours.
fn special() -> Vec<f32> {
    let thresholds = [
        0.5, 0.7, 0.14, 0.113, 0.41, 0.29, 1.41, 3.925, 9.02, 10.3, 20.0, 88.72, 89.0, 89.4, 90.0, 103.97, 105.0,
        150.0, 1e-8, 1e30, 1.57, 0.785, 4.2, 0.6, 1.7e-3, 0.346_57, 1.2345e5,
    ];
    let powers = (-149..128).map(|n| libm::ldexpf(1.0, n));
    let near = powers.chain(thresholds).flat_map(|x: f32| (-3i32..=3).map(move |d| x.to_bits().wrapping_add_signed(d)));
    let whole = (0..300u16).flat_map(|n| [f32::from(n), f32::from(n) * 0.5]);
    let positive = near.map(f32::from_bits).chain(whole).chain([0.0, f32::INFINITY, f32::NAN, f32::MAX]);
    positive.flat_map(|x| [x, -x]).collect()
}

/// `count` bit patterns, spread evenly over all f32.
fn spread(count: u32) -> impl Iterator<Item = f32> {
    let step = (u32::MAX / count) | 1;
    (0..count).map(move |i| f32::from_bits(i.wrapping_mul(step)))
}

fn worst_of<const K: u8>(name: &str, row: Block<Single<K>>, truth: &[f64], inputs: &[f32]) -> Worst {
    let xs: Vec<Single<K>> = inputs.iter().map(|&x| Single(x)).collect();
    let mut out = xs.clone();
    row(&xs, &mut out);
    let (tolerance, mut worst) = (tolerance(name), Worst::default());
    for ((&x, got), &want) in inputs.iter().zip(&out).zip(truth) {
        if K != FLUSHED || !may_flush(&[x], want) {
            worst.meet([x, 0.0, 0.0], got.0, want, tolerance);
        }
    }
    worst
}

fn truth_of(row: Block<Double>, inputs: &[f32]) -> Vec<f64> {
    let xs: Vec<Double> = inputs.iter().map(|&x| Double(f64::from(x))).collect();
    let mut out = xs.clone();
    row(&xs, &mut out);
    out.into_iter().map(|x| x.0).collect()
}

/// The worst errors of a unary row over `inputs`: fused, unfused and flushed.
fn worst_unary(index: usize, inputs: &[f32]) -> [Worst; 3] {
    let (name, truth) = unary_rows::<Double>()[index];
    let truth = truth_of(truth, inputs);
    [
        worst_of(name, unary_rows::<Single<FUSED>>()[index].1, &truth, inputs),
        worst_of(name, unary_rows::<Single<UNFUSED>>()[index].1, &truth, inputs),
        worst_of(name, unary_rows::<Single<FLUSHED>>()[index].1, &truth, inputs),
    ]
}

const KINDS: [&str; 3] = ["fused", "unfused", "flushed"];

#[test]
fn unary_rows_are_within_their_tolerance() {
    let inputs: Vec<f32> = special().into_iter().chain(spread(200_000)).collect();
    for (index, (name, _)) in unary_rows::<Double>().into_iter().enumerate() {
        for (worst, kind) in worst_unary(index, &inputs).into_iter().zip(KINDS) {
            worst.check(name, kind, tolerance(name));
        }
    }
}

/// The worst errors of a unary row, fused and unfused, over the f32 whose bits are in `range`.
fn sweep(index: usize, range: std::ops::Range<u64>) -> [Worst; 2] {
    let mut worst = [Worst::default(); 2];
    for start in range.clone().step_by(4096) {
        let inputs: Vec<f32> = (start..(start + 4096).min(range.end)).map(|b| f32::from_bits(b as u32)).collect();
        let (name, row) = unary_rows::<Double>()[index];
        let truth = truth_of(row, &inputs);
        worst[0].join(worst_of(name, unary_rows::<Single<FUSED>>()[index].1, &truth, &inputs));
        worst[1].join(worst_of(name, unary_rows::<Single<UNFUSED>>()[index].1, &truth, &inputs));
    }
    worst
}

/// The same over every f32, on all cores.
fn sweep_all(index: usize) -> [Worst; 2] {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
    let next = AtomicU64::new(0);
    let work = || {
        let mut worst = [Worst::default(); 2];
        while let part @ 0..256 = next.fetch_add(1, Ordering::Relaxed) {
            let [fused, unfused] = sweep(index, part << 24..(part + 1) << 24);
            worst[0].join(fused);
            worst[1].join(unfused);
        }
        worst
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        others.into_iter().fold([Worst::default(); 2], |mut all, other| {
            let [fused, unfused] = other.join().expect("the sweep ends");
            all[0].join(fused);
            all[1].join(unfused);
            all
        })
    })
}

/// Every f32 through every row from float to float that is not rightly rounded by nature, and the table of
/// `ACCURACY.md`. Run it when `math` or a row changes; it takes about four minutes on 16 cores, half an hour on two:
///
/// `RUSTFLAGS="-C target-cpu=native" cargo test --release -p breakeven-ir --test accuracy -- --ignored --nocapture`
#[test]
#[ignore = "minutes, when `math` or a row changes: cargo test --release -p breakeven-ir --test accuracy -- --ignored"]
fn every_f32_is_within_tolerance() {
    let rows = unary_rows::<Double>().into_iter().enumerate();
    let mut all = Vec::new();
    for (index, (name, _)) in rows.filter(|(_, (name, _))| tolerance(name).ulp > 0) {
        let [fused, unfused] = sweep_all(index);
        println!("| {name} | {:.2} | `{:e}` | {:.2} | `{:e}` |", fused.ulps, fused.at[0], unfused.ulps, unfused.at[0]);
        all.push((name, fused, unfused));
    }
    for (name, fused, unfused) in all {
        fused.check(name, KINDS[0], tolerance(name));
        unfused.check(name, KINDS[1], tolerance(name));
    }
}

/// Values that meet all the cases of a row of several operands.
const EDGES: [f32; 44] = [
    0.0,
    1e-45,
    1e-39,
    1.2e-38,
    1e-30,
    1e-8,
    1e-3,
    0.1,
    0.25,
    0.4,
    0.5,
    0.75,
    0.88,
    0.9999,
    0.999_999_94,
    1.0,
    1.000_000_1,
    1.0001,
    1.1,
    1.14,
    1.25,
    1.41,
    1.42,
    1.5,
    1.7,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    10.0,
    30.0,
    100.0,
    127.0,
    149.0,
    1000.0,
    16_777_215.0,
    16_777_216.0,
    1e9,
    4.3e9,
    1e30,
    f32::MAX,
    f32::INFINITY,
    f32::NAN,
];

/// Numbers between 0 and 1 that look random and are the same every time.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / 2f64.powi(53)
    }
}

/// Operands for `def`: every pair of edges, then random ones: of any size, of similar size, and for `pow` in range.
fn operands(def: &MapDef, count: usize) -> Vec<[f32; 3]> {
    let signed: Vec<f32> = EDGES.into_iter().flat_map(|x| [x, -x]).collect();
    let mut random = noise(1);
    let mut all: Vec<[f32; 3]> = signed.iter().flat_map(|&a| signed.iter().map(move |&b| [a, b, 1.0])).collect();
    for i in 0..count {
        let any = f32::from_bits((random() * 2f64.powi(32)) as u32);
        let near = (random() - 0.5) * 2f64.powi((random() * 40.0) as i32 - 20);
        let wide = (random() - 0.5) * 2f64.powi((random() * 40.0) as i32 - 20);
        let base = 1.0 + near.clamp(-0.9, 3.0) * if i % 8 < 4 { 1e-3 } else { 1.0 };
        let power = (random() - 0.5) * 320.0 / base.log2();
        all.push(match i % 4 {
            0 => [any, f32::from_bits((random() * 2f64.powi(32)) as u32), 1.0],
            1 => [any, wide as f32, 1.0],
            2 => [near as f32, wide as f32, 1.0],
            _ => [base as f32, power as f32, 1.0],
        });
    }
    let parameters = [0.2f32, 0.01, 0.5, 1.0, 1.673_263_2, 3.0];
    for (i, args) in all.iter_mut().enumerate() {
        for (place, kind) in def.args.iter().enumerate() {
            match kind {
                Kind::P => {
                    let step = if def.params() == 1 { 0.0 } else { place as f32 - 1.0 };
                    args[place] = parameters[(i + i / 7) % 6] + step;
                }
                Kind::M => args[place] = f32::from(u8::from(args[place] > 1.0)),
                Kind::V => {}
            }
        }
    }
    all
}

fn worst_of_operands<const K: u8>(def: &MapDef, operands: &[[f32; 3]]) -> Worst {
    let (mut worst, count) = (Worst::default(), def.args.len());
    let name = if def.name == "where" { "where_" } else { def.name };
    for &args in operands {
        let want = call(name, &args.map(|x| Double(f64::from(x)))[..count]).expect("a row over floats").0;
        let got = call(name, &args.map(Single::<K>)[..count]).expect("a row over floats").0;
        if K != FLUSHED || !may_flush(&args, want) {
            worst.meet(args, got, want, def.tolerance);
        }
    }
    worst
}

/// Rows that `unary_rows` leaves out: several operands, parameters, truth values.
fn other_rows() -> impl Iterator<Item = &'static MapDef> {
    let is_float = |m: &&MapDef| matches!(m.family, Family::Any | Family::Number | Family::Float);
    MAPS.iter().filter(is_float).filter(|m| m.args != [Kind::V] || m.out != Kind::V)
}

#[test]
fn rows_of_several_operands_are_within_their_tolerance() {
    for def in other_rows() {
        let operands = operands(def, 100_000);
        worst_of_operands::<FUSED>(def, &operands).check(def.name, KINDS[0], def.tolerance);
        worst_of_operands::<UNFUSED>(def, &operands).check(def.name, KINDS[1], def.tolerance);
        worst_of_operands::<FLUSHED>(def, &operands).check(def.name, KINDS[2], def.tolerance);
    }
}
