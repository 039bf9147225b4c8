//! The transform over a prime field, and products of polynomials by it.

use breakeven::{CustomOp, Engine, Tensor, stack};

use crate::field::{ADD, GENERATOR, MUL, PRIME, SUB, power, product, shifted};

/// What a transform of `n` points needs.
pub struct Transform {
    /// Powers of a root of unity, shifted: of the root itself, and of its inverse.
    roots: [Tensor; 2],
    /// The stage as a custom operation; without it, a stage is rows.
    stage: Option<CustomOp>,
    points: usize,
}

impl Transform {
    /// For `points`, a power of two.
    pub fn new(engine: &Engine, points: usize, stage: Option<CustomOp>) -> Transform {
        assert!(points.is_power_of_two() && points >= 2, "a transform has a power of two of points");
        let root = power(GENERATOR, (PRIME - 1) / points as u32);
        let roots = [root, power(root, PRIME - 2)].map(|root| {
            let powers = std::iter::successors(Some(1), |&last| Some(product(last, root)));
            let powers: Vec<u32> = powers.take(points / 2).map(shifted).collect();
            engine.from_vec(powers, [points / 2])
        });
        Transform { roots, stage, points }
    }

    /// The product of two polynomials with fewer than `points` coefficients between them.
    pub fn multiply(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let values = self.run(a, 0).map(MUL, &[&self.run(b, 0)], &[]);
        // The product of values lost a factor of 2^32, and going there and back gained one of `points`.
        let factor = shifted(shifted(power(self.points as u32, PRIME - 2)));
        self.run(&values, 1).map(MUL, &[&values.engine().from_vec(vec![factor], [1])], &[])
    }

    fn run(&self, x: &Tensor, direction: usize) -> Tensor {
        let widths = std::iter::successors(Some(1), |width| Some(2 * width)).take_while(|&width| width < self.points);
        widths.fold(x.clone(), |x, width| self.stage(&x, &self.roots[direction], width))
    }

    fn stage(&self, x: &Tensor, roots: &Tensor, width: usize) -> Tensor {
        let Some(op) = &self.stage else { return self.stage_of_rows(x, roots, width) };
        let [next] = x.custom(op, &[roots], &[width as f64]);
        next
    }

    fn stage_of_rows(&self, x: &Tensor, roots: &Tensor, width: usize) -> Tensor {
        let groups = self.points / 2 / width;
        let halves = x.reshape([2, groups, width]).split(0, &[1, 1]);
        let (a, b) = (halves[0].squeeze(0), halves[1].squeeze(0));
        let factors = roots.slice_by(0, 0, groups, width as isize).unsqueeze(1);
        let (sums, rest) = (a.map(ADD, &[&b], &[]), a.map(SUB, &[&b], &[]).map(MUL, &[&factors], &[]));
        stack(&[&sums, &rest], 1).reshape([self.points])
    }
}
