//! Fourier transforms and what goes with them.

use std::f64::consts::PI;

use breakeven::{DType, Pad, Tensor, stack};

use super::{Operator, axis, extents, numbers, one};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};

const WINDOW: &[&str] = &["output_datatype", "periodic"];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("BlackmanWindow", WINDOW, |c| window(c, |turn| 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos())),
    one("DFT", &["axis", "inverse", "onesided"], dft),
    one("HammingWindow", WINDOW, |c| window(c, |turn| 25.0 / 46.0 - 21.0 / 46.0 * turn.cos())),
    one("HannWindow", WINDOW, |c| window(c, |turn| 0.5 - 0.5 * turn.cos())),
    one("MelWeightMatrix", &["output_datatype"], mel_weights),
    one("STFT", &["onesided"], stft),
];

/// A function of the angle, which goes once round over the window.
fn window(call: &Call<'_>, of: fn(f64) -> f64) -> Result<Tensor> {
    let count = extents(&[call.one_int(0)?])?[0];
    call.room(count, size_of::<f64>())?;
    let whole = if call.flag("periodic", true)? { count as f64 } else { count as f64 - 1.0 };
    let values: Vec<f64> = (0..count).map(|i| of(2.0 * PI * i as f64 / whole)).collect();
    Ok(call.made(values, count).cast(call.dtype("output_datatype")?.unwrap_or(DType::F32)))
}

/// A signal: its parts along the last axis.
struct Signal {
    real: Tensor,
    imaginary: Option<Tensor>,
}

/// What a transform does.
#[derive(Clone, Copy)]
struct Transform {
    count: usize,
    inverse: bool,
    onesided: bool,
}

fn dft(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let rank = x.check()?.shape.rank();
    let default = if call.opset() < 20 { 1 } else { -2 };
    let along = if call.has(2) { call.one_int(2)? } else { call.int("axis", default)? };
    let along = axis(along, rank)?;
    if along + 1 == rank {
        return wrong("transforms an axis before the last, which holds real and imaginary parts");
    }
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let extent = x.shape()[along];
    let count = match call.has(1) {
        true => extents(&[call.one_int(1)?])?[0],
        false if inverse && onesided => extent.saturating_sub(1).saturating_mul(2),
        false => extent,
    };
    let signal = Signal::of(&x, along)?;
    let y = signal.transformed(call, Transform { count, inverse, onesided })?;
    Ok(y.joined(along, rank))
}

impl Signal {
    /// `x` with axis `along` brought to the end, and without its axis of parts.
    fn of(x: &Tensor, along: usize) -> Result<Signal> {
        let dims = &x.check()?.shape;
        let parts = dims.last().copied().unwrap_or(0);
        if !matches!(parts, 1 | 2) {
            return wrong(format!("takes one or two parts on the last axis, not {parts}"));
        }
        let part = |i: usize| x.slice(-1, i..=i).squeeze(-1);
        let mut order: Vec<isize> = (0..dims.rank() as isize - 1).filter(|&a| a != along as isize).collect();
        order.push(along as isize);
        let turned = |t: Tensor| t.permute(&order);
        Ok(Signal { real: turned(part(0)), imaginary: (parts == 2).then(|| turned(part(1))) })
    }

    /// The inverse of `of`, for a tensor of `rank`.
    fn joined(&self, along: usize, rank: usize) -> Tensor {
        let last = rank as isize - 2;
        let order: Vec<isize> =
            (0..rank - 1).map(|a| if a == along { last } else { a as isize - isize::from(a > along) }).collect();
        let real = self.real.permute(&order);
        match &self.imaginary {
            Some(imaginary) => stack(&[&real, &imaginary.permute(&order)], -1),
            None => real.unsqueeze(-1),
        }
    }

    /// The transform of the last axis, cut or filled with zeros to as many elements as it takes.
    fn transformed(&self, call: &Call<'_>, how: Transform) -> Result<Signal> {
        let Transform { count, inverse, onesided } = how;
        let taken = if inverse && onesided { count / 2 + 1 } else { count };
        let given = if onesided && !inverse { count / 2 + 1 } else { count };
        call.room(taken.saturating_mul(given), size_of::<f64>())?;
        let fit = |t: &Tensor| -> Result<Tensor> {
            let dims = &t.check()?.shape;
            let mut widths = vec![(0, 0); dims.rank()];
            widths[dims.rank() - 1].1 = taken as isize - dims[dims.rank() - 1] as isize;
            Ok(t.pad(&widths, Pad::Constant(0.0)))
        };
        let real = fit(&self.real)?;
        let imaginary = self.imaginary.as_ref().map(fit).transpose()?;
        let matrix = |of: fn(f64) -> f64| self.matrix(how, [taken, given], of);
        let (cos, sin) = (matrix(f64::cos)?, matrix(f64::sin)?);
        let none = || real.scalar(0.0).broadcast_to(real.shape().clone());
        let other = imaginary.unwrap_or_else(none);
        let sign = if inverse { -1.0 } else { 1.0 };
        let y = real.matmul(&cos) + other.matmul(&sin) * sign;
        let imaginary = (!(inverse && onesided)).then(|| other.matmul(&cos) - real.matmul(&sin) * sign);
        Ok(Signal { real: y, imaginary })
    }

    /// `of(2 pi k n / count)` for each element taken and given, with the weights of an inverse.
    fn matrix(&self, how: Transform, [taken, given]: [usize; 2], of: fn(f64) -> f64) -> Result<Tensor> {
        let count = how.count;
        let weight = |k: usize| match (how.inverse, how.onesided) {
            (false, _) => 1.0,
            (true, true) if k != 0 && 2 * k != count => 2.0 / count as f64,
            (true, _) => 1.0 / count as f64,
        };
        let entry = |k: usize, n: usize| weight(k) * of(2.0 * PI * ((k * n) % count.max(1)) as f64 / count as f64);
        let all: Vec<f64> =
            (0..taken).flat_map(|k| (0..given).map(move |n| (k, n))).map(|(k, n)| entry(k, n)).collect();
        numbers(self.real.engine(), all, &[taken, given], self.real.dtype())
    }
}

/// Transforms of overlapping frames.
fn stft(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let step = extents(&[call.one_int(1)?])?[0];
    let window = call.optional(2)?;
    let dims = x.check()?.shape.clone();
    if dims.rank() != 3 || step == 0 {
        return wrong(format!("takes [batch, length, parts] and a step, not {dims} and {step}"));
    }
    let width = match (call.has(3), &window) {
        (true, _) => extents(&[call.one_int(3)?])?[0],
        (false, Some(window)) => window.check()?.shape.elements(),
        (false, None) => dims[1],
    };
    let framed = |t: &Tensor| {
        let frames = t.window(1, width, step, 1);
        window.as_ref().map_or_else(|| frames.clone(), |window| &frames * window)
    };
    let whole = Signal::of(&x, 1)?;
    let frames = Signal { real: framed(&whole.real), imaginary: whole.imaginary.as_ref().map(framed) };
    let onesided = call.flag("onesided", true)?;
    let y = frames.transformed(call, Transform { count: width, inverse: false, onesided })?;
    Ok(y.joined(2, 4))
}

/// Triangles on the mel scale, as weights from frequencies to bins.
fn mel_weights(call: &Call<'_>) -> Result<Tensor> {
    let whole = |i: usize| Ok(extents(&[call.one_int(i)?])?[0]) as Result<usize>;
    let (bins, length, rate) = (whole(0)?, whole(1)?, whole(2)?);
    let (lower, upper) = (call.one_float(3)?, call.one_float(4)?);
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / 10f64.ln();
    let step = (mel(upper) - mel(lower)) / (bins + 2) as f64;
    let place = |i: usize| {
        let hertz = 700.0 * ((i as f64 * step + mel(lower)) / 2595.0 * 10f64.ln()).exp_m1();
        ((length + 1) as f64 * hertz / rate as f64).floor() as usize
    };
    let rows = length / 2 + 1;
    if rate == 0 || place(bins + 1) > rows {
        return unsupported(format!("{bins} bins of {length} at {rate} per second"));
    }
    call.room(bins.saturating_mul(rows), size_of::<f64>())?;
    let mut weights = vec![0.0; rows * bins];
    for bin in 0..bins {
        let [left, centre, right] = [place(bin), place(bin + 1), place(bin + 2)];
        let mut set = |row: usize, value: f64| {
            if row < rows {
                weights[row * bins + bin] = value;
            }
        };
        if left == centre {
            set(centre, 1.0);
        } else {
            (left..=centre).for_each(|row| set(row, (row - left) as f64 / (centre - left) as f64));
        }
        for row in centre..right {
            set(row, (right - row) as f64 / (right - centre) as f64);
        }
    }
    Ok(call.made(weights, [rows, bins]).cast(call.dtype("output_datatype")?.unwrap_or(DType::F32)))
}
