//! What the engine adds to a device's own time: measured by calls as users make them, beside the same work handed to the device alone.

use std::sync::Arc;

use breakeven_device::{Device, DeviceError, HostBytes};
use breakeven_ir::{DType, Spec};
use breakeven_plan::{Curve, DeviceId, DeviceProfile, Knot};

use super::Effort;
use crate::{Engine, Result, Tensor};

/// Elements of the smallest work.
const ELEMENTS: usize = 16;
/// Where a device that is given to an engine comes after the CPU.
const GIVEN: DeviceId = DeviceId(1);
/// Calls that are timed, for each repeat of other measurements: each is short.
const CALLS: usize = 8;

/// Adds to a profile what calls take beyond what it predicts: to handing over what a call takes whose operand and result stay where
/// they are, to each copy its share of what is left where both are the host's.
pub(super) fn settle(
    device: &Arc<dyn Device>,
    effort: Effort,
    profile: DeviceProfile,
    wake: &dyn Fn() -> std::result::Result<(), DeviceError>,
) -> std::result::Result<DeviceProfile, DeviceError> {
    let failed = |error: crate::Error| match error {
        crate::Error::Device { source, .. } => source,
        other => DeviceError::Driver(format!("it could not be called: {other}")),
    };
    let caller = Caller::new(device, profile).map_err(failed)?;
    let is_copied_to = !device.caps().host_memory;
    // The first calls compile and plan, which lets a card lower its clock: what is predicted was measured of one that was awake.
    for way in [&STAYS, &COMES_AND_GOES] {
        (way.call)(&caller, &caller.written(way)).map_err(failed)?;
    }
    wake()?;
    let resident = caller.beyond(effort, &STAYS).map_err(failed)?;
    let copied = if is_copied_to { caller.beyond(effort, &COMES_AND_GOES).map_err(failed)? } else { 0.0 };
    let mut profile = caller.profile;
    profile.submit.seconds += resident;
    // One copy each way.
    let each = (copied - resident).max(0.0) / 2.0;
    profile.upload = later(&profile.upload, each);
    profile.download = later(&profile.download, each);
    Ok(profile)
}

/// A device as users reach it.
struct Caller {
    engine: Engine,
    device: Arc<dyn Device>,
    profile: DeviceProfile,
    /// Where calls go; `None` where they go by themselves.
    on: Option<DeviceId>,
    bytes: HostBytes,
    kept: Tensor,
}

impl Caller {
    fn new(device: &Arc<dyn Device>, profile: DeviceProfile) -> Result<Caller> {
        let builder = Engine::builder().gpus(false).no_cache().threads(1).learn(false);
        // The engine opens a CPU of its own, which needs no name: calls that are not told where to go are shorter.
        let (on, builder) = if device.caps().host_memory {
            (None, builder.cpu_profile(profile.clone()))
        } else {
            (Some(GIVEN), builder.measured_device(device.clone(), profile.clone()))
        };
        let engine = builder.build()?;
        let bytes = HostBytes::from_vec(vec![0x3Fu8; spec().bytes() as usize]);
        let kept = engine.from_bytes(bytes.clone(), spec());
        Ok(Caller { engine, device: device.clone(), profile, on, bytes, kept })
    }

    /// Seconds that calls take beyond what is predicted of them: the lower quartile.
    fn beyond(&self, effort: Effort, way: &Way) -> Result<f64> {
        // The first brings what then stays.
        (way.call)(self, &self.written(way))?;
        let predicted = (way.predicted)(self, &self.written(way))?;
        let one = |_| {
            let begun = self.device.now();
            (way.call)(self, &self.written(way))?;
            Ok(self.device.now().saturating_sub(begun).as_secs_f64())
        };
        let mut times = (0..CALLS * effort.repeats).map(one).collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 4] - predicted).max(0.0))
    }

    fn written(&self, way: &Way) -> Tensor {
        let operand = if way.brings { self.engine.from_bytes(self.bytes.clone(), spec()) } else { self.kept.clone() };
        let result = operand.relu();
        match self.on {
            Some(device) => result.on(device),
            None => result,
        }
    }
}

/// A way to call, and what is predicted of it.
struct Way {
    /// The operand comes from the host each time.
    brings: bool,
    call: fn(&Caller, &Tensor) -> Result<()>,
    predicted: fn(&Caller, &Tensor) -> Result<f64>,
}

/// From what is on the device to what stays there.
const STAYS: Way = Way {
    brings: false,
    call: |caller, result| caller.engine.run(&[result]).map(drop),
    predicted: |caller, result| Ok(caller.engine.run(&[result])?.plan.predicted.seconds),
};

/// From the host's memory to the host's memory.
const COMES_AND_GOES: Way = Way {
    brings: true,
    call: |caller, result| result.read_into(&mut [0f32; ELEMENTS], caller.engine.deadline()),
    predicted: |caller, result| Ok(caller.engine.explain(&[result])?.predicted.seconds),
};

fn spec() -> Spec {
    Spec::new(DType::F32, [ELEMENTS])
}

/// A curve whose every time is so many seconds longer.
fn later(curve: &Curve, seconds: f64) -> Curve {
    let one = |knot: &Knot| Knot { log_mean: (knot.log_mean.exp() + seconds).ln(), ..*knot };
    Curve::new(curve.knots().iter().map(one).collect()).expect("sizes are as they were and times longer")
}

#[cfg(test)]
mod tests {
    use breakeven_plan::Cost;

    use super::super::tests::simulated;
    use super::*;

    #[test]
    fn calls_take_what_a_settled_profile_says() {
        let (device, effort) = simulated();
        let measured = crate::calibrate::measure(&device, effort).unwrap();
        // As if the engine took 5 us a call, and 2 us more for each copy.
        let (submit, copies) =
            (measured.submit.seconds, [&measured.upload, &measured.download].map(|c| later(c, -2e-6)));
        let [upload, download] = copies;
        let hasty =
            DeviceProfile { submit: Cost { seconds: submit - 5e-6, ..measured.submit }, upload, download, ..measured };
        for way in [&STAYS, &COMES_AND_GOES] {
            let settled = settle(&device, effort, hasty.clone(), &|| Ok(())).unwrap();
            let beyond =
                |profile: &DeviceProfile| Caller::new(&device, profile.clone()).unwrap().beyond(effort, way).unwrap();
            assert!(beyond(&hasty) > 4.9e-6 && beyond(&settled) < 1e-8, "{hasty:?} {settled:?}");
        }
    }

    #[test]
    fn a_later_curve_is_so_much_later_at_every_size() {
        let curve = Curve::new(vec![Knot::new(1e3, 1e-6), Knot::new(1e6, 1e-4)]).unwrap();
        let later = later(&curve, 2e-6);
        for (size, seconds) in [(1e3, 3e-6), (1e6, 1.02e-4)] {
            assert!((later.at(size).unwrap().seconds / seconds - 1.0).abs() < 1e-9, "{later:?}");
        }
    }
}
