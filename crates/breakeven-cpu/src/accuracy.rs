//! How far the loops of each instruction set are from the truth, which is the same row in double precision.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use breakeven_ir::{DType, Family, Kind, MAPS, Row, Tolerance};

use crate::Isa;
use crate::natives::Natives;

/// Values that a loop takes at a time: a block, whose last values are not a whole register.
const AT_ONCE: usize = 1000;

/// The worst error of a row, and the input it came from.
#[derive(Clone, Copy, Debug, Default)]
struct Worst {
    ulps: f64,
    at: f32,
}

/// Distance in units in the last place of the truth; an infinity stands for what is next above the largest number.
fn ulps(got: f32, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let limit = 2f64.powi(128);
    let held = |x: f64| x.clamp(-limit, limit);
    let exponent = held(want).abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor().min(127.0);
    (held(f64::from(got)) - held(want)).abs() / 2f64.powi(exponent as i32 - 23)
}

fn meet(worst: &mut Worst, at: f32, got: f32, want: f64, tolerance: Tolerance) {
    if got.to_bits() == (want as f32).to_bits() {
        return;
    }
    let error = ulps(got, want);
    let is_near = tolerance.abs > 0.0 && (f64::from(got) - want).abs() <= tolerance.abs;
    if error > worst.ulps && !is_near {
        *worst = Worst { ulps: error, at };
    }
}

/// Rows from float to float of one operand.
fn rows() -> impl Iterator<Item = Row> {
    let is_unary = |r: &Row| r.args == [Kind::V] && r.out == Kind::V && matches!(r.family, Family::Float);
    MAPS.iter().map(|def| Row::named(def.name).expect("it is in the table")).filter(is_unary)
}

/// The loops of an instruction set, and its name.
type Set = (Isa, Natives);

/// Runs the loop of `row` over values of `T`, which are of `dtype`.
fn results<T: Copy + Default>(natives: &Natives, row: Row, dtype: DType, inputs: &[T]) -> Vec<T> {
    let run = natives.row(row, dtype).expect("every row of floats has a loop");
    let mut out = vec![T::default(); inputs.len()];
    // SAFETY: both hold as many numbers.
    unsafe { run(&[inputs.as_ptr().cast(); 3], out.as_mut_ptr().cast(), inputs.len()) };
    out
}

/// Takes `inputs` into the worst errors of `row`, one for each set.
fn meet_all(worst: &mut [Worst], sets: &[Set], row: Row, inputs: &[f32]) {
    let wide: Vec<f64> = inputs.iter().map(|&x| f64::from(x)).collect();
    let wants = results(&sets[0].1, row, DType::F64, &wide);
    for ((_, natives), worst) in sets.iter().zip(worst) {
        let gots = results(natives, row, DType::F32, inputs);
        for ((&x, got), &want) in inputs.iter().zip(gots).zip(&wants) {
            meet(worst, x, got, want, row.tolerance);
        }
    }
}

/// What a stride steps over: infinities, NaN, zeros, and powers of two with their neighbours.
fn special() -> Vec<f32> {
    let powers = (0..=255u32).flat_map(|exponent| [0, 1, 0x7F_FFFF].map(|rest| f32::from_bits(exponent << 23 | rest)));
    powers.flat_map(|x| [x, -x]).collect()
}

/// The worst errors of `row` over every `stride`th f32, on all cores.
fn sweep(sets: &[Set], row: Row, stride: u64) -> Vec<Worst> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let (next, worst) = (AtomicU64::new(0), Mutex::new(vec![Worst::default(); sets.len()]));
    let span = AT_ONCE as u64 * stride;
    let work = || {
        let mut mine = vec![Worst::default(); sets.len()];
        meet_all(&mut mine, sets, row, &special());
        let mut start = next.fetch_add(span, Ordering::Relaxed);
        while start < 1 << 32 {
            let patterns = (start..(start + span).min(1 << 32)).step_by(stride as usize);
            let inputs: Vec<f32> = patterns.map(|bits| f32::from_bits(bits as u32)).collect();
            meet_all(&mut mine, sets, row, &inputs);
            start = next.fetch_add(span, Ordering::Relaxed);
        }
        for (all, mine) in worst.lock().expect("no sweep panics").iter_mut().zip(mine) {
            *all = if mine.ulps > all.ulps { mine } else { *all };
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    worst.into_inner().expect("no sweep panics")
}

/// Sweeps rows on every instruction set that is there, and prints a line of `ACCURACY.md` for each.
fn check(rows: impl Iterator<Item = Row>, stride: u64) {
    let sets: Vec<Set> = Isa::ALL.into_iter().filter_map(|isa| Some((isa, Natives::new(isa)?))).collect();
    let mut wrong = Vec::new();
    for row in rows {
        print!("| {}", row.name);
        for (Worst { ulps, at }, (isa, _)) in sweep(&sets, row, stride).into_iter().zip(&sets) {
            print!(" | {ulps:.2} | `{at:e}`");
            if ulps > f64::from(row.tolerance.ulp).max(0.5) {
                wrong.push(format!("{} on {isa} is off by {ulps} ULP at {at:e}", row.name));
            }
        }
        println!(" |");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_are_within_their_tolerance_on_every_instruction_set() {
    check(rows(), 65_521);
}

/// A test for each row of one float.
macro_rules! every_f32 {
    ($($(#[doc = $doc:literal])+
        $name:ident: $family:ident($($arg:ident: $kind:ident),+) -> $out:ident [$tolerance:expr] = $body:expr;)+) => {
        /// Run that of a row when the row changes, and all of them when `math` or a primitive of the lanes does:
        /// `cargo test --release -p breakeven-cpu every_f32::tanh -- --ignored --nocapture`.
        mod every_f32 {
            $(every_f32!(@ $name $family $($kind)+ $out);)+
        }
    };
    (@ $name:ident Float V V) => {
        #[test]
        #[ignore = "some minutes on two cores: cargo test --release -p breakeven-cpu every_f32 -- --ignored --nocapture"]
        fn $name() {
            super::check_row(stringify!($name));
        }
    };
    (@ $($other:tt)+) => {};
}
breakeven_ir::for_each_map!(every_f32);

fn check_row(name: &str) {
    let row = Row::named(name).expect("it is in the table");
    check(rows().filter(|r| r.name == row.name), 1);
}
