//! Of two measurements of the same kernels at different times, what was quieter.

use std::collections::BTreeMap;

use breakeven_plan::{Between, ClassCurves, Curve, Knot};

/// By class and size, the shorter times; sizes that only one pass came to are as it found them. Both measured the same classes and families.
pub(super) fn quieter(
    one: BTreeMap<String, ClassCurves>,
    mut other: BTreeMap<String, ClassCurves>,
) -> BTreeMap<String, ClassCurves> {
    let both = |(class, curves): (String, ClassCurves)| {
        let curves = match other.remove(&class) {
            Some(other) => quieter_class(curves, other),
            None => curves,
        };
        (class, curves)
    };
    one.into_iter().map(both).collect()
}

fn quieter_class(one: ClassCurves, other: ClassCurves) -> ClassCurves {
    let between = |(one, other): (Between, Between)| Between {
        seconds: shorter(&one.seconds, &other.seconds),
        flops: longest(one.flops, other.flops),
    };
    let mix = one.mix.zip(other.mix).map(|(one, other)| breakeven_plan::Mix {
        math: longest(one.math, other.math),
        memory: longest(one.memory, other.memory),
    });
    let one_row = one.one_row.zip(other.one_row).map(|(one, other)| Box::new(quieter_class(*one, *other)));
    ClassCurves {
        math: shorter(&one.math, &other.math),
        memory: shorter(&one.memory, &other.memory),
        mix,
        between: one.between.into_iter().zip(other.between).map(between).collect(),
        one_row,
    }
}

fn shorter(one: &Curve, other: &Curve) -> Curve {
    let mut knots: Vec<Knot> = one.knots().to_vec();
    for knot in other.knots() {
        match knots.iter_mut().find(|known| known.at == knot.at) {
            // What was faster than the clock can tell was a difference of two times, of which the wrong one was long.
            Some(known) if is_told(known) && (known.log_mean <= knot.log_mean || !is_told(knot)) => {}
            Some(known) => *known = *knot,
            None => knots.push(*knot),
        }
    }
    Curve::new(knots).expect("sizes are different and times positive")
}

fn is_told(knot: &Knot) -> bool {
    knot.log_mean > (1.5 * super::SHORTEST).ln()
}

/// Of two that say the same, the one that says it of more sizes.
fn longest(one: Curve, other: Curve) -> Curve {
    if one.knots().len() >= other.knots().len() { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Curve {
        Curve::new(points.iter().map(|&(at, seconds)| Knot::new(at, seconds)).collect()).unwrap()
    }

    #[test]
    fn of_each_size_the_shorter_time_counts() {
        let pass = |seconds: [f64; 2], more: &[(f64, f64)]| {
            let points = [&[(1e3, seconds[0]), (1e4, seconds[1])], more].concat();
            let row = ClassCurves { memory: line(&[(1e3, seconds[1])]), ..ClassCurves::default() };
            let between = vec![Between { seconds: line(&points), flops: line(&[(1e3, 7.0)]) }];
            let curves = ClassCurves {
                math: line(&points),
                memory: line(&points),
                between,
                one_row: Some(Box::new(row)),
                mix: None,
            };
            BTreeMap::from([("map".to_owned(), curves)])
        };
        let shortest = super::super::SHORTEST;
        let found = quieter(pass([1.0, 9.0], &[(1e6, shortest)]), pass([2.0, 5.0], &[(1e5, 40.0), (1e6, 300.0)]));
        let want = line(&[(1e3, 1.0), (1e4, 5.0), (1e5, 40.0), (1e6, 300.0)]);
        let curves = &found["map"];
        assert_eq!([&curves.math, &curves.memory, &curves.between[0].seconds], [&want; 3]);
        assert_eq!(curves.one_row.as_ref().unwrap().memory, line(&[(1e3, 5.0)]));
    }
}
