//! Curves: measured points, straight lines in logarithms between them.

use serde::{Deserialize, Serialize};

/// A predicted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Expected seconds.
    pub seconds: f64,
    /// How far off it may be: the standard deviation, in seconds.
    pub spread: f64,
}

impl Cost {
    /// Nothing, for certain.
    pub const ZERO: Cost = Cost { seconds: 0.0, spread: 0.0 };

    /// One after the other. Errors of one curve go together, so spreads add.
    pub fn then(self, other: Cost) -> Cost {
        Cost { seconds: self.seconds + other.seconds, spread: self.spread + other.spread }
    }

    /// So much of it.
    pub fn part(self, share: f64) -> Cost {
        Cost { seconds: self.seconds * share, spread: self.spread * share }
    }

    /// On the way to another, straight in logarithms: this one at 0, the other at 1.
    pub fn toward(self, other: Cost, share: f64) -> Cost {
        let between = |from: f64, to: f64| from + share * (to - from);
        let seconds = between(self.seconds.ln(), other.seconds.ln()).exp();
        let relative = |cost: Cost| cost.spread / cost.seconds;
        Cost { seconds, spread: seconds * between(relative(self), relative(other)) }
    }

    /// The longer of both.
    pub fn longer(self, other: Cost) -> Cost {
        if other.seconds > self.seconds { other } else { self }
    }
}

/// What was measured at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knot {
    /// The size: bytes or arithmetic operations.
    pub at: f64,
    /// Mean of the natural logarithm of the seconds.
    pub log_mean: f64,
    /// Standard deviation of that logarithm.
    pub spread: f64,
    /// Measurements behind it; 0 for a prior.
    pub count: u32,
}

impl Knot {
    /// A knot that says `seconds` at size `at`.
    pub fn new(at: f64, seconds: f64) -> Knot {
        Knot { at, log_mean: seconds.ln(), spread: 0.0, count: 1 }
    }

    fn cost(&self, factor: f64) -> Cost {
        let seconds = self.log_mean.exp() * factor;
        Cost { seconds, spread: seconds * self.spread }
    }
}

/// Seconds against a size.
///
/// Invariant: sizes are positive and ascending, numbers finite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Knot>", into = "Vec<Knot>")]
pub struct Curve(Vec<Knot>);

impl Curve {
    /// A curve through these knots, in any order. Fails when a number is not finite, a size is not positive, or a size
    /// appears twice.
    pub fn new(mut knots: Vec<Knot>) -> Result<Curve, String> {
        knots.sort_by(|a, b| a.at.total_cmp(&b.at));
        let finite = |k: &Knot| [k.at, k.log_mean, k.spread].iter().all(|x| x.is_finite()) && k.at > 0.0;
        if !knots.iter().all(finite) || knots.windows(2).any(|w| w[0].at == w[1].at) {
            return Err("a curve has different positive sizes and finite times".to_owned());
        }
        Ok(Curve(knots))
    }

    /// A rate that does not depend on the size, as `per_second` units a second: for tests and priors.
    pub fn rate(per_second: f64) -> Curve {
        Curve(vec![Knot::new(1.0, 1.0 / per_second)])
    }

    /// The measured points, ascending.
    pub fn knots(&self) -> &[Knot] {
        &self.0
    }

    /// What a curve of other numbers than seconds says at a size: in proportion on both sides of what it knows.
    pub fn number(&self, size: f64) -> Option<f64> {
        let first = self.0.first()?.at;
        Some(self.at(size)?.seconds * (size / first).min(1.0))
    }

    /// Time for a size: as the first knot below it, in proportion to the size above the last. `None` for a curve
    /// without knots.
    pub fn at(&self, size: f64) -> Option<Cost> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        if size <= first.at {
            return Some(first.cost(1.0));
        }
        let above = self.0.partition_point(|k| k.at < size);
        let Some(b) = self.0.get(above) else {
            return Some(last.cost(size / last.at));
        };
        let a = &self.0[above - 1];
        let t = (size / a.at).ln() / (b.at / a.at).ln();
        let between = |x: f64, y: f64| x + t * (y - x);
        let (log_mean, spread) = (between(a.log_mean, b.log_mean), between(a.spread, b.spread));
        Some(Knot { at: size, log_mean, spread, count: 0 }.cost(1.0))
    }
}

impl TryFrom<Vec<Knot>> for Curve {
    type Error = String;
    fn try_from(knots: Vec<Knot>) -> Result<Curve, String> {
        Curve::new(knots)
    }
}

impl From<Curve> for Vec<Knot> {
    fn from(curve: Curve) -> Vec<Knot> {
        curve.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_in_logarithms_and_proportional_beyond() {
        let curve = Curve::new(vec![Knot::new(400.0, 4.0), Knot::new(100.0, 2.0)]).unwrap();
        let at = |size: f64| curve.at(size).unwrap().seconds;
        assert!((at(200.0) - 8f64.sqrt()).abs() < 1e-12);
        assert!((at(1.0) - 2.0).abs() < 1e-12);
        assert!((at(800.0) - 8.0).abs() < 1e-12);
        assert_eq!(Curve::default().at(1.0), None);
    }

    #[test]
    fn a_curve_that_cannot_be_is_an_error() {
        assert!(Curve::new(vec![Knot::new(1.0, 0.0)]).is_err());
        assert!(Curve::new(vec![Knot::new(0.0, 1.0)]).is_err());
        assert!(
            serde_json::from_str::<Curve>(
                r#"[{"at":1,"log_mean":0,"spread":0,"count":1},{"at":1,"log_mean":0,"spread":0,"count":1}]"#
            )
            .is_err()
        );
    }
}
