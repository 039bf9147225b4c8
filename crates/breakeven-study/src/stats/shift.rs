//! How far two groups of values lie apart that were measured at different times: by the ranks of all differences, without any assumption about
//! how values are distributed.

/// With 99% confidence not outside: this part of the cases may be beyond either end.
const BEYOND: f64 = 0.005;
/// The same in deviations of a normal distribution.
const DEVIATIONS: f64 = 2.576;
/// Up to so many values together, orders are counted one by one: their number is below 2^53, so each count is exact. Above it the count of smaller
/// pairs is as good as normally distributed.
const COUNTED: usize = 50;

/// By how much the second group's values are larger.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The median of all differences: Hodges and Lehmann's of 1963.
    pub middle: f64,
    /// With 99% confidence not below this.
    pub low: f64,
    /// With 99% confidence not above this.
    pub high: f64,
}

/// The shift from `a` to `b`; `None` if they are too few to say anything with 99% confidence, however far apart they are. Five in each are enough.
pub fn shift(a: &[f64], b: &[f64]) -> Option<Shift> {
    let outside = pairs_outside(a.len(), b.len())?;
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let last = differences.len() - 1;
    Some(Shift { middle: differences[last / 2], low: differences[outside], high: differences[last - outside] })
}

/// How many of the pairs of `a` and `b` values lie beyond each end of the interval: if the two are alike, pairs with a larger value of the first
/// group are fewer than that (Mann and Whitney 1947) in at most one case of 200.
fn pairs_outside(a: usize, b: usize) -> Option<usize> {
    if a == 0 || b == 0 {
        return None;
    }
    if a + b > COUNTED {
        let [a, b] = [a as f64, b as f64];
        let deviation = (a * b * (a + b + 1.0) / 12.0).sqrt();
        return Some((a * b / 2.0 - DEVIATIONS * deviation - 0.5) as usize);
    }
    let orders = orders(a, b);
    let most = BEYOND * orders.iter().sum::<f64>();
    let mut below = 0.0;
    let enough = orders.iter().take_while(|count| {
        below += **count;
        below <= most
    });
    enough.count().checked_sub(1)
}

/// For each number of pairs in which the value of the first group is the larger one, how many orders of all values have it: the coefficients of
/// Gauss's binomial.
fn orders(a: usize, b: usize) -> Vec<f64> {
    let mut counts = vec![0.0; a * b + 1];
    counts[0] = 1.0;
    for step in 1..=a {
        for at in (b + step..counts.len()).rev() {
            counts[at] -= counts[at - b - step];
        }
        for at in step..counts.len() {
            counts[at] += counts[at - step];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    #[test]
    fn orders_are_counted() {
        assert_eq!(orders(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(orders(5, 5).iter().sum::<f64>(), 252.0);
        assert_eq!(orders(25, 25).iter().sum::<f64>(), 126_410_606_437_752.0);
    }

    /// Tables of the rank sum test at 1% on both sides: critical values 0 for 5 and 5, 16 for 10 and 10, 105 for 20 and 20.
    #[test]
    fn five_of_each_are_the_fewest_that_say_anything() {
        assert_eq!((pairs_outside(4, 4), pairs_outside(4, 5), pairs_outside(4, 6)), (None, None, Some(0)));
        let outside = [5, 10, 20].map(|count| pairs_outside(count, count));
        assert_eq!(outside, [Some(0), Some(16), Some(105)]);
        assert_eq!((pairs_outside(0, 9), shift(&[1.0; 4], &[2.0; 4])), (None, None));
        // Where counting ends the other formula goes on.
        let (counted, normal) = (pairs_outside(25, 25), pairs_outside(25, 26));
        assert!(counted < normal && normal < counted.map(|pairs| pairs + 15), "{counted:?} {normal:?}");
    }

    #[test]
    fn an_interval_holds_the_shift_as_often_as_it_says() {
        let mut random = Random::new(8);
        for count in [5, 12, 40] {
            let mut values = |shift: f64| (0..count).map(|_| shift + 0.1 * random.normal()).collect::<Vec<_>>();
            let held = (0..1000).filter(|_| {
                let found = shift(&values(0.0), &values(0.1)).expect("enough");
                found.low <= 0.1 && 0.1 <= found.high
            });
            let held = held.count();
            assert!((980..=998).contains(&held), "{count}: {held}");
        }
    }
}
