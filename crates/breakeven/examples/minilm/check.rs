//! The embeddings of each device beside those they must be.

use crate::failure::Failure;
use crate::model::Model;
use crate::plain::Plain;
use crate::reference::Reference;
use crate::targets::Target;

/// The largest error that an element of a vector of length 1 may have.
pub const TOLERANCE: f64 = 1e-5;

/// Texts for software adapters, which take about a second for each.
const SOFTWARE_TEXTS: usize = 4;

/// How far one device was off.
pub struct Error {
    pub target: String,
    pub texts: usize,
    /// The largest absolute error; infinite where a vector is not a vector of numbers.
    pub max_abs: f64,
}

impl Error {
    pub fn is_within_tolerance(&self) -> bool {
        self.max_abs <= TOLERANCE
    }
}

/// Embeds the texts of the reference on `target`.
pub fn check(model: &Model, reference: &Reference, target: &Target) -> Result<Error, Failure> {
    let count = if target.is_software { SOFTWARE_TEXTS } else { reference.texts.len() };
    let chosen = reference.shortest(count);
    let tokens: Vec<&[i64]> = chosen.iter().map(|&index| reference.token_ids[index].as_slice()).collect();
    let found = target.embed_all(model, &tokens)?;
    let expected = chosen.iter().map(|&index| &reference.embeddings[index]);
    let max_abs = found.iter().zip(expected).map(|(found, expected)| distance(found, expected)).fold(0.0, f64::max);
    Ok(Error { target: target.name.clone(), texts: chosen.len(), max_abs })
}

/// The largest difference of two vectors; infinite where there is none.
pub fn distance<T: Copy + Into<f64>>(found: &[f32], expected: &[T]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let differences = found.iter().zip(expected).map(|(&a, &b)| (f64::from(a) - b.into()).abs());
    differences.map(|d| if d.is_nan() { f64::INFINITY } else { d }).fold(0.0, f64::max)
}

/// The embeddings that the tokens of the reference have under other weights, computed in f64 without the library.
pub fn recompute(plain: &Plain, reference: &mut Reference) {
    reference.embeddings = reference.token_ids.iter().map(|ids| plain.embed(ids)).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_infinitely_wrong() {
        assert_eq!(distance(&[1.0, 2.0], &[1.0, 1.5]), 0.5);
        assert_eq!(distance(&[f32::NAN], &[0.0]), f64::INFINITY);
        assert_eq!(distance(&[0.0], &[0.0, 0.0]), f64::INFINITY);
    }
}
