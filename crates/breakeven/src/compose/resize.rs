//! Resizing by interpolation: every element of the result is a weighted sum of a few elements along each axis.

use std::panic::Location;

use breakeven_ir::{CallError, DType, Shape};

use super::{composed, need, right};
use crate::Tensor;

/// Which place of the input a place of the result shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coordinates {
    /// Elements are areas, and edges meet edges.
    HalfPixel,
    /// As `HalfPixel`, but scaled from the middle where the scale does not fit the size.
    HalfPixelSymmetric,
    /// As `HalfPixel`, but an axis of one element shows place 0.
    PytorchHalfPixel,
    /// First meets first and last meets last, where the scale fits the size.
    AlignCorners,
    /// Places times the scale.
    Asymmetric,
    /// The part of the axis from the first to the second number, both relative to its length.
    Crop(f64, f64),
}

/// How the nearest place is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Halves go down.
    HalfDown,
    /// Halves go up.
    HalfUp,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

/// How elements between places come about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// The nearest element.
    Nearest(Rounding),
    /// Between two elements.
    Linear,
    /// Between four elements, with the given coefficient: -0.75 or -0.5 as a rule.
    Cubic(f64),
}

/// How one axis is resized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// Elements of the result.
    pub count: usize,
    /// Result elements for each input element; `count / extent` as a rule.
    pub scale: f64,
    /// Which place of the input a place of the result shows.
    pub coordinates: Coordinates,
    /// How elements between places come about.
    pub filter: Filter,
    /// Whether the filter grows with the input when the result is smaller.
    pub antialias: bool,
    /// Whether places outside the input have no weight, rather than showing the edge.
    pub excludes_outside: bool,
    /// What `Coordinates::Crop` shows outside the input.
    pub outside: f64,
}

impl Resize {
    /// To `count` elements of an axis of `extent`, by halves of pixels, linear, as torch without aligned corners.
    pub fn linear(extent: usize, count: usize) -> Resize {
        Resize {
            count,
            scale: count as f64 / extent.max(1) as f64,
            coordinates: Coordinates::HalfPixel,
            filter: Filter::Linear,
            antialias: false,
            excludes_outside: false,
            outside: 0.0,
        }
    }

    /// To `count` elements of an axis of `extent`, each the nearest before it, as torch does.
    pub fn nearest(extent: usize, count: usize) -> Resize {
        let filter = Filter::Nearest(Rounding::Floor);
        Resize { coordinates: Coordinates::Asymmetric, filter, ..Resize::linear(extent, count) }
    }
}

/// Elements of the input that one element of the result is made of, and their weights.
type Taps = Vec<(usize, f64)>;

impl Tensor {
    /// One axis with another number of elements, interpolated. Weights are computed in double precision.
    #[must_use]
    #[track_caller]
    pub fn resize(&self, axis: isize, how: &Resize) -> Tensor {
        composed(&[self], Location::caller(), || {
            let axis = crate::views::axis("resize", axis, self.shape().rank())?;
            let extent = self.shape()[axis];
            need(extent > 0 || how.count == 0, "resize", || "an empty axis has nothing to show".to_owned())?;
            need(how.scale > 0.0, "resize", || format!("a scale of {} is not positive", how.scale))?;
            self.engine().room_for("resize", how.count, size_of::<Taps>())?;
            // A result of less than half an element needs no filter that wide, and one of any width has no end.
            let reaches = !how.antialias || how.scale * extent as f64 >= 0.5;
            need(reaches, "resize", || format!("a scale of {} leaves nothing of {extent} elements", how.scale))?;
            let taps: Vec<Taps> = (0..how.count).map(|i| how.taps(i, extent)).collect();
            Ok(cropped(right(&weighted(self, axis, &taps)?)?, axis, extent, how))
        })
    }
}

impl Resize {
    /// The place of the input that element `i` of the result shows.
    fn place(&self, i: usize, extent: usize) -> f64 {
        let (i, n, count) = (i as f64, extent as f64, self.count as f64);
        match self.coordinates {
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if self.count == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (i + 0.5) / self.scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                let adjusted = count / (n * self.scale);
                n / 2.0 * (1.0 - adjusted) + (i + 0.5) / self.scale - 0.5
            }
            // A scale that does not fit the size counts, as in ONNX.
            Coordinates::AlignCorners => i * (n - 1.0) / (n * self.scale - 1.0),
            Coordinates::Asymmetric => i / self.scale,
            Coordinates::Crop(from, to) if self.count == 1 => 0.5 * (from + to) * (n - 1.0),
            Coordinates::Crop(from, to) => from * (n - 1.0) + i * (to - from) * (n - 1.0) / (count - 1.0),
        }
    }

    fn taps(&self, i: usize, extent: usize) -> Taps {
        let place = self.place(i, extent);
        let held = |at: f64| at.clamp(0.0, extent as f64 - 1.0) as usize;
        match self.filter {
            Filter::Nearest(rounding) => vec![(held(rounding.of(place)), 1.0)],
            Filter::Linear => self.around(place, 1.0, extent, |x| (1.0 - x.abs()).max(0.0)),
            Filter::Cubic(a) => self.around(place, 2.0, extent, |x| cubic(x.abs(), a)),
        }
    }

    /// Elements within `reach` of `place`, by their distance.
    fn around(&self, place: f64, reach: f64, extent: usize, weight: impl Fn(f64) -> f64) -> Taps {
        let shrink = if self.antialias { self.scale.min(1.0) } else { 1.0 };
        let (from, to) = ((place - reach / shrink).ceil() as i64, (place + reach / shrink).floor() as i64);
        let inside = |at: i64| (0..extent as i64).contains(&at);
        let all = (from..=to).map(|at| (at, weight((at as f64 - place) * shrink)));
        let kept: Vec<(i64, f64)> = all.filter(|&(at, w)| w != 0.0 && (inside(at) || !self.excludes_outside)).collect();
        let sum: f64 = kept.iter().map(|(_, w)| w).sum();
        kept.into_iter().map(|(at, w)| (at.clamp(0, extent as i64 - 1) as usize, w / sum)).collect()
    }
}

impl Rounding {
    fn of(self, place: f64) -> f64 {
        match self {
            Rounding::HalfDown => (place - 0.5).ceil(),
            Rounding::HalfUp => (place + 0.5).floor(),
            Rounding::Floor => place.floor(),
            Rounding::Ceil => place.ceil(),
        }
    }
}

/// Keys' kernel at distance `x`.
fn cubic(x: f64, a: f64) -> f64 {
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// Weighted sums of elements along `axis`.
fn weighted(x: &Tensor, axis: usize, taps: &[Taps]) -> Result<Tensor, CallError> {
    let (most, count) = (taps.iter().map(Vec::len).max().unwrap_or(1).max(1), taps.len());
    let tap = |of: &Taps, i: usize| of.get(i).copied().unwrap_or((0, 0.0));
    let column = |i: usize| x.engine().from_vec(taps.iter().map(|of| tap(of, i).0 as i64).collect::<Vec<_>>(), count);
    if most == 1 {
        return Ok(x.gather(axis as isize, &column(0)));
    }
    need(x.dtype().is_float(), "resize", || format!("{} has nothing between its elements", x.dtype()))?;
    let dims: Shape = (axis..x.shape().rank()).map(|a| if a == axis { count } else { 1 }).collect();
    let weight = |i: usize| {
        let all: Vec<f64> = taps.iter().map(|of| tap(of, i).1).collect();
        x.engine().rounded(x.dtype(), &all, dims.clone())
    };
    let part = |i: usize| x.gather(axis as isize, &column(i)) * weight(i);
    Ok((1..most).fold(part(0), |sum, i| sum + part(i)))
}

/// What a crop shows outside the input.
fn cropped(y: &Tensor, axis: usize, extent: usize, how: &Resize) -> Tensor {
    if !matches!(how.coordinates, Coordinates::Crop(..)) {
        return y.clone();
    }
    let inside: Vec<bool> =
        (0..how.count).map(|i| (0.0..=extent as f64 - 1.0).contains(&how.place(i, extent))).collect();
    let dims: Shape = (axis..y.shape().rank()).map(|a| if a == axis { how.count } else { 1 }).collect();
    debug_assert!(y.dtype() != DType::Bool || how.outside == 0.0);
    y.engine().from_vec(inside, dims).where_(y, &Tensor::fill(y.engine(), y.dtype(), how.outside))
}
