//! Whether other work held the cores while something was measured.

use crate::folder::Reading;

/// From this share of its time on for which a thread was ready and had no core, a row was measured beside other work, or beside more threads of a
/// driver's than there are cores. Chosen, not measured: far above what wakes now and then, far below a program that computes.
pub const CONTENDED: f64 = 0.05;
/// A machine is noisy when so many of its rows were measured beside other work, or a hypervisor took so much of its time.
pub const CROWDED: f64 = 0.1;

/// Whether a row was measured beside other work, by the share of its time that a thread waited for a core.
pub fn is_contended(waited: Option<f64>) -> bool {
    waited.is_some_and(|share| share >= CONTENDED)
}

/// The share of all cores' time that a hypervisor gave to others, over all readings in order; `None` where no two of them tell. A machine that was
/// started again between two counts from zero: nothing is known of that time.
pub fn stolen(readings: &[Reading]) -> Option<f64> {
    let (mut all, mut stolen) = (0, 0);
    for pair in readings.windows(2) {
        let (Some(before), Some(after)) = (pair[0].processor, pair[1].processor) else { continue };
        let ticks =
            after.all_ticks.checked_sub(before.all_ticks).zip(after.stolen_ticks.checked_sub(before.stolen_ticks));
        let (more, more_stolen) = ticks.unwrap_or((0, 0));
        (all, stolen) = (all + more, stolen + more_stolen);
    }
    (all > 0).then(|| stolen as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::ProcessorTime;

    #[test]
    fn stolen_time_is_that_between_readings() {
        let reading = |ticks: Option<(u64, u64)>| {
            let processor = ticks.map(|(all_ticks, stolen_ticks)| ProcessorTime { all_ticks, stolen_ticks });
            Reading { processor, ..Reading::default() }
        };
        let check = |ticks: &[Option<(u64, u64)>], wanted| {
            assert_eq!(stolen(&ticks.iter().map(|ticks| reading(*ticks)).collect::<Vec<_>>()), wanted, "{ticks:?}");
        };
        check(&[], None);
        check(&[Some((1000, 900))], None);
        check(&[None, Some((1000, 900)), None], None);
        check(&[Some((1000, 900)), Some((1000, 900))], None);
        check(&[Some((1000, 900)), Some((1100, 900))], Some(0.0));
        check(&[Some((1000, 900)), Some((1100, 930)), Some((1200, 930))], Some(0.15));
        // Started again in between.
        check(&[Some((1000, 900)), Some((10, 0)), Some((110, 20))], Some(0.2));
    }

    #[test]
    fn what_wakes_now_and_then_is_no_contention() {
        assert_eq!([None, Some(0.0), Some(0.02), Some(0.5)].map(is_contended), [false, false, false, true]);
    }
}
