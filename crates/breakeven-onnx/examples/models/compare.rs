//! How far outputs are from those of ONNX Runtime, and from f64.

use breakeven::{DType, Tensor};

/// The relative tolerance that the backend tests of ONNX allow real models, here of the largest element of an output.
const TOLERANCE: f64 = 1e-3;

/// The largest errors of all outputs of all sets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    /// Of any element.
    pub largest: f64,
    /// The largest as a share of the largest element of its output.
    pub relative: f64,
    /// Both against f64, where that is there.
    pub exact: Option<Exact>,
}

/// Errors against f64.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact {
    pub ours: f64,
    pub theirs: f64,
    /// Ours as a share of the largest element of its output.
    pub relative: f64,
}

impl Errors {
    /// Ours is judged against f64 where that is there, since ONNX Runtime's error counts as ours otherwise.
    pub fn are_small(&self) -> bool {
        self.exact.map_or(self.relative, |exact| exact.relative) <= TOLERANCE
    }

    /// One more output.
    pub fn add(&mut self, given: &Tensor, wanted: &Tensor, exact: Option<&Tensor>) -> anyhow::Result<()> {
        let (given, wanted) = (elements(given)?, elements(wanted)?);
        let (error, relative) = difference(&given, &wanted);
        self.largest = self.largest.max(error);
        self.relative = self.relative.max(relative);
        if let Some(exact) = exact {
            let exact = elements(exact)?;
            let ((ours, relative), (theirs, _)) = (difference(&given, &exact), difference(&wanted, &exact));
            let before = self.exact.unwrap_or_default();
            self.exact = Some(Exact {
                ours: before.ours.max(ours),
                theirs: before.theirs.max(theirs),
                relative: before.relative.max(relative),
            });
        }
        Ok(())
    }
}

fn elements(tensor: &Tensor) -> anyhow::Result<Vec<f64>> {
    Ok(match tensor.check()?.dtype {
        DType::F32 => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec()?,
    })
}

/// The largest difference, and the share of the largest element that it is; NaN counts as an endless error.
fn difference(given: &[f64], wanted: &[f64]) -> (f64, f64) {
    let off = |(a, b): (&f64, &f64)| if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() };
    let error = given.iter().zip(wanted).map(off).fold(0.0, f64::max);
    (error, error / wanted.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs())))
}
