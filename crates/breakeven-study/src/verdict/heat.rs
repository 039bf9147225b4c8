//! Whether two runs were made in the same thermal state: the same machine, hot, is another one.

use crate::Sensed;
use crate::folder::Recorded;

/// From so many degrees between the hottest of two runs on, a reader is told. Chosen, not measured: more than a room and a fan differ by from one
/// run to the next.
const MUCH_HOTTER: f64 = 10.0;

/// What differs much between the thermal states of two runs, in sentences; nothing where one of them did not read it.
pub(super) fn differing(a: &Recorded, b: &Recorded) -> Vec<String> {
    let [a, b] = [a, b].map(|run| Sensed::over(&run.sensors));
    [lowered(&a, &b), hotter(&a, &b)].into_iter().flatten().collect()
}

/// Lowered clocks from which on a reader is told, and how many times as often as in the other run. Chosen, not measured.
const LOWERED: u64 = 5;
const TIMES_AS_OFTEN: f64 = 2.0;

/// One lowered its clocks much more often, for as long as it took.
fn lowered(a: &Sensed, b: &Sensed) -> Option<String> {
    let (of_a, of_b) = (a.throttlings?, b.throttlings?);
    let [rate_a, rate_b] = [(of_a, a), (of_b, b)].map(|(times, run)| times as f64 / run.readings as f64);
    let differs = of_a.max(of_b) >= LOWERED && rate_a.max(rate_b) > TIMES_AS_OFTEN * rate_a.min(rate_b);
    differs.then(|| {
        format!("heat or power lowered clocks {of_a} times in A and {of_b} times in B, which alone can make one of them slower")
    })
}

/// One was much hotter: the machine, or a GPU of it.
fn hotter(a: &Sensed, b: &Sensed) -> Option<String> {
    let of_gpus = |gpu: &crate::SensedGpu| {
        let other = b.gpus.iter().find(|other| other.name == gpu.name)?;
        Some((gpu.name.clone(), gpu.celsius?, other.celsius?))
    };
    let machine = a.celsius.zip(b.celsius).map(|(of_a, of_b)| ("the machine".to_string(), of_a, of_b));
    let all = machine.into_iter().chain(a.gpus.iter().filter_map(of_gpus));
    let far = all.filter(|(_, of_a, of_b)| (of_a - of_b).abs() >= MUCH_HOTTER);
    let said: Vec<String> =
        far.map(|(what, of_a, of_b)| format!("{what} was at {of_a:.1} °C in A and {of_b:.1} °C in B")).collect();
    (!said.is_empty()).then(|| format!("another thermal state, at the hottest: {}", said.join(", ")))
}
