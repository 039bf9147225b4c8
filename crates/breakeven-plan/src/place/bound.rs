//! How short a run could be at best, whatever runs where: where no mix can win, none is looked for.

use super::model::Model;
use crate::DeviceId;
use crate::route::Router;

/// Weights of one device against the others that are tried.
const WEIGHTS: u32 = 32;

/// Seconds that no placement can go below: the longest chain of kernels, each where it is fastest, or the work itself,
/// however it is shared out.
pub(crate) fn least(router: &Router<'_>, model: &Model, usable: &[DeviceId]) -> f64 {
    let shared = usable.iter().flat_map(|&device| (1..WEIGHTS).map(move |step| shared(model, usable, device, step)));
    router.longest(&|kernel| fastest(model, usable, kernel, &|_| 1.0)).max(shared.fold(0.0, f64::max))
}

/// A bound from linear programming's dual: with weights of devices that sum to 1, the longest load is at least the
/// weighted mean of loads, and in that each kernel counts no less than where it counts least.
fn shared(model: &Model, usable: &[DeviceId], main: DeviceId, step: u32) -> f64 {
    let own = f64::from(step) / f64::from(WEIGHTS);
    let other = (1.0 - own) / (usable.len() - 1) as f64;
    let weight = |device: DeviceId| if device == main { own } else { other };
    (0..model.run.len()).map(|kernel| fastest(model, usable, kernel, &weight)).sum()
}

fn fastest(model: &Model, usable: &[DeviceId], kernel: usize, weight: &dyn Fn(DeviceId) -> f64) -> f64 {
    let on = |&device: &DeviceId| Some(model.run[kernel][device.0]? * weight(device));
    usable.iter().filter_map(on).fold(f64::INFINITY, f64::min)
}
