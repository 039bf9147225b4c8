//! Times of one class of kernels: what was measured, and what it says of a kernel that is none of those measured.

use breakeven_ir::Work;
use serde::{Deserialize, Serialize};

use crate::{Cost, Curve};

/// Times of one class of kernels, from families of them: one does much arithmetic for its bytes, another little, and others stand
/// between these.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassCurves {
    /// Seconds against arithmetic operations, of the family with much of it.
    pub math: Curve,
    /// Seconds against bytes, of the family with little arithmetic.
    pub memory: Curve,
    /// How much arithmetic each family does. Where that is not known, a kernel takes the longer of both curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Families that do more than the one with little arithmetic and less than the one with much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Between>,
    /// The same of one row that is as long as there are elements; the curves above are of as many rows as columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_row: Option<Box<ClassCurves>>,
}

/// Arithmetic operations against bytes of the kernels that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// Of the family with much arithmetic.
    pub math: Curve,
    /// Of the family with little.
    pub memory: Curve,
}

/// What was measured of a family that stands between the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// Seconds against bytes.
    pub seconds: Curve,
    /// Arithmetic operations against bytes.
    pub flops: Curve,
}

impl ClassCurves {
    /// What so much work takes; `None` where nothing was measured.
    pub fn cost(&self, work: Work) -> Option<Cost> {
        let square = self.cost_by_mix(work)?;
        let one = self.one_row.as_ref().and_then(|one| one.cost_by_mix(work)).filter(|_| work.rows > 0);
        // As many rows as columns have half of the logarithm; with more, there are enough to share out.
        let share = one.map_or(1.0, |_| (2.0 * (work.rows as f64).ln() / (work.elements.max(2) as f64).ln()).min(1.0));
        Some(one.map_or(square, |one| one.toward(square, share)))
    }

    /// Between what kernels of as many bytes take that do less and more arithmetic, by how much this one does.
    fn cost_by_mix(&self, work: Work) -> Option<Cost> {
        let memory = self.memory.at(work.bytes as f64);
        let math = self.math.at(work.flops as f64).filter(|_| work.flops > 0);
        let (Some(memory), Some(math)) = (memory, math) else { return memory.or(math) };
        match self.mix.as_ref().and_then(|mix| mix.ends(work)) {
            None => Some(memory.longer(math)),
            Some([_, most]) if work.flops as f64 >= most => Some(math),
            Some([least, most]) => {
                let ends = [Point { flops: least, cost: memory }, Point { flops: most, cost: self.math.at(most)? }];
                Some(self.along(ends, work))
            }
        }
    }

    /// On the way from the family with little arithmetic to the one with much, over those between that were measured at such sizes.
    fn along(&self, [mut below, mut above]: [Point; 2], work: Work) -> Cost {
        let flops = work.flops as f64;
        for point in self.between.iter().filter_map(|family| family.at(work.bytes as f64)) {
            if point.flops <= below.flops || point.flops >= above.flops {
                continue;
            }
            // Beyond where a family was measured it goes on in proportion, and more arithmetic is no less work for that.
            let cost = if point.cost.seconds < below.cost.seconds { below.cost } else { point.cost };
            let end = if point.flops <= flops { &mut below } else { &mut above };
            *end = Point { cost, ..point };
        }
        let share = ((flops - below.flops) / (above.flops - below.flops)).max(0.0);
        below.cost.part(1.0 - share).then(above.cost.part(share))
    }
}

/// A kernel of as many bytes as another.
#[derive(Clone, Copy)]
struct Point {
    flops: f64,
    cost: Cost,
}

impl Between {
    fn at(&self, bytes: f64) -> Option<Point> {
        Some(Point { flops: self.flops.number(bytes)?, cost: self.seconds.at(bytes)? })
    }
}

impl Mix {
    /// The arithmetic of both families for as many bytes; `None` where they do as much.
    fn ends(&self, work: Work) -> Option<[f64; 2]> {
        let [most, least] = [&self.math, &self.memory].map(|curve| curve.number(work.bytes as f64));
        let (most, least) = (most?, least.unwrap_or(0.0));
        (most > 1.5 * least).then_some([least, most])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Knot;

    fn line(points: &[(f64, f64)]) -> Curve {
        Curve::new(points.iter().map(|&(at, number)| Knot::new(at, number)).collect()).unwrap()
    }

    /// 1 s a kilobyte with 1 operation a byte, 3 s with 9.
    fn measured() -> ClassCurves {
        let mix = Mix { math: line(&[(1e3, 9e3), (1e6, 9e6)]), memory: line(&[(1e3, 1e3), (1e6, 1e6)]) };
        let (math, memory) = (line(&[(9e3, 3.0), (9e6, 3e3)]), line(&[(1e3, 1.0), (1e6, 1e3)]));
        ClassCurves { math, memory, mix: Some(mix), ..ClassCurves::default() }
    }

    fn seconds(curves: &ClassCurves, flops: u64, bytes: u64, rows: u64) -> f64 {
        curves.cost(Work { flops, bytes, rows, elements: 10_000 }).unwrap().seconds
    }

    fn check(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn a_kernel_is_priced_between_the_families_by_its_arithmetic() {
        let curves = measured();
        check(seconds(&curves, 1_000, 1_000, 0), 1.0);
        check(seconds(&curves, 9_000, 1_000, 0), 3.0);
        check(seconds(&curves, 5_000, 1_000, 0), 2.0);
        check(seconds(&curves, 50_000, 10_000, 0), 20.0);
        check(seconds(&curves, 0, 1_000, 0), 1.0);
        check(seconds(&curves, 90_000, 1_000, 0), 30.0);
    }

    #[test]
    fn a_kernel_is_priced_between_its_neighbours_among_the_families() {
        let between = |flops: f64, seconds: f64| Between {
            seconds: line(&[(1e3, seconds), (1e6, 1e3 * seconds)]),
            flops: line(&[(1e3, flops), (1e6, 1e3 * flops)]),
        };
        // In any order; one that does more than the family with much arithmetic is none between.
        let curves =
            ClassCurves { between: vec![between(5e3, 1.2), between(3e3, 1.1), between(2e4, 9.0)], ..measured() };
        check(seconds(&curves, 1_000, 1_000, 0), 1.0);
        check(seconds(&curves, 2_000, 1_000, 0), 1.05);
        check(seconds(&curves, 3_000, 1_000, 0), 1.1);
        check(seconds(&curves, 4_000, 1_000, 0), 1.15);
        check(seconds(&curves, 50_000, 10_000, 0), 12.0);
        check(seconds(&curves, 7_000, 1_000, 0), 2.1);
        check(seconds(&curves, 9_000, 1_000, 0), 3.0);
        check(seconds(&curves, 90_000, 1_000, 0), 30.0);
    }

    #[test]
    fn without_knowing_the_arithmetic_the_longer_of_both_counts() {
        let same = measured().mix.unwrap().memory;
        for mix in [None, Some(Mix { math: same.clone(), memory: same })] {
            let curves = ClassCurves { mix, ..measured() };
            check(seconds(&curves, 9_000, 10_000, 0), 10.0);
            check(seconds(&curves, 90_000, 1_000, 0), 30.0);
        }
    }

    #[test]
    fn few_rows_are_priced_between_one_and_as_many_as_columns() {
        let slow = ClassCurves { memory: line(&[(1e3, 100.0), (1e6, 1e5)]), mix: None, ..measured() };
        let curves = ClassCurves { one_row: Some(Box::new(slow)), ..measured() };
        check(seconds(&curves, 1_000, 1_000, 1), 100.0);
        check(seconds(&curves, 1_000, 1_000, 10), 10.0);
        check(seconds(&curves, 1_000, 1_000, 100), 1.0);
        check(seconds(&curves, 1_000, 1_000, 5_000), 1.0);
        check(seconds(&curves, 1_000, 1_000, 0), 1.0);
    }
}
