//! Calibration: measures a device through the same seam that plans use.

mod kernels;
mod measure;

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Device, DeviceError, DeviceInfo, SegmentStep};
use breakeven_ir::Kernel;
use breakeven_plan::{ClassCurves, Cost, Curve, DeviceProfile, Knot, Profile, Trust, class_name};

use kernels::Probe;
use measure::Bench;

/// What a calibration may cost.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repeats of each measurement; the lower quartile counts.
    pub repeats: usize,
    /// Sizes grow no further once one run takes this long.
    pub longest: Duration,
    /// Largest array, in bytes.
    pub largest_bytes: usize,
    /// What the result is called.
    pub trust: Trust,
}

impl Effort {
    /// A second or two.
    pub const QUICK: Effort =
        Effort { repeats: 5, longest: Duration::from_millis(15), largest_bytes: 16 << 20, trust: Trust::Quick };
    /// Up to a minute.
    pub const FULL: Effort =
        Effort { repeats: 15, longest: Duration::from_millis(200), largest_bytes: 256 << 20, trust: Trust::Full };
}

/// What is known of a device before anything was measured: nothing, so the CPU does the work.
pub(crate) fn unmeasured(info: &DeviceInfo) -> DeviceProfile {
    DeviceProfile { name: info.name.clone(), driver: info.driver.clone(), ..DeviceProfile::default() }
}

/// The profile of a device among those measured earlier.
pub(crate) fn known(profile: Option<&Profile>, info: &DeviceInfo) -> Option<DeviceProfile> {
    let same = |p: &&DeviceProfile| p.name == info.name && p.driver == info.driver && p.trust != Trust::Builtin;
    profile?.devices.iter().find(same).cloned()
}

/// Launches in one segment when the cost of one more launch is measured.
const LAUNCHES: usize = 16;
/// A kernel faster than the clock can tell is taken to last this long.
const SHORTEST: f64 = 1e-9;

/// Measures one device.
pub fn measure(device: &Arc<dyn Device>, effort: Effort) -> Result<DeviceProfile, DeviceError> {
    let bench = Bench { device, effort };
    let info = device.info();
    let mut profile = unmeasured(info);
    overheads(&bench, &mut profile)?;
    if !device.caps().host_memory {
        profile.upload = link(&bench, &profile, true)?;
        profile.download = link(&bench, &profile, false)?;
    }
    for probe in kernels::PROBES {
        let curves =
            ClassCurves { math: curve(&bench, &profile, probe, true)?, memory: curve(&bench, &profile, probe, false)? };
        profile.classes.insert(class_name(probe.class).to_owned(), curves);
    }
    profile.trust = effort.trust;
    Ok(profile)
}

/// Submit, dispatch and sync, from segments of one and of many launches.
fn overheads(bench: &Bench<'_>, profile: &mut DeviceProfile) -> Result<(), DeviceError> {
    let launch = |_| kernels::smallest();
    let one = bench.kernels(&[launch(0)])?;
    let many = bench.kernels(&(0..LAUNCHES).map(launch).collect::<Vec<_>>())?;
    let dispatch = ((many.seconds - one.seconds) / (LAUNCHES - 1) as f64).max(SHORTEST);
    let fixed = (one.seconds - dispatch).max(SHORTEST);
    // What the caller pays before and after the device works: told apart by when submit returned.
    let submit = one.submit_seconds.clamp(SHORTEST, fixed);
    let cost = |seconds: f64, of: &measure::Sample| Cost { seconds, spread: seconds * of.spread };
    profile.dispatch = cost(dispatch, &many);
    profile.submit = cost(submit, &one);
    profile.sync = cost((fixed - submit).max(SHORTEST), &one);
    Ok(())
}

/// Seconds of a copy against its bytes, without what every batch costs.
fn link(bench: &Bench<'_>, profile: &DeviceProfile, up: bool) -> Result<Curve, DeviceError> {
    let fixed = profile.submit.seconds + profile.sync.seconds;
    let mut knots = Vec::new();
    let mut bytes = 1 << 10;
    while bytes <= bench.effort.largest_bytes {
        let step = if up {
            SegmentStep::Upload { upload: 0, slot: 0 }
        } else {
            SegmentStep::Download { slot: 0, bytes: bytes as u64, read: 0 }
        };
        let sample = bench.copy(step, bytes)?;
        knots.push(knot(bytes as f64, sample.seconds - fixed, &sample));
        if sample.wall >= bench.effort.longest {
            break;
        }
        bytes *= 4;
    }
    Ok(Curve::new(knots).expect("sizes are different and times positive"))
}

/// Seconds of a kernel against its arithmetic or its bytes, without what every launch costs.
fn curve(bench: &Bench<'_>, profile: &DeviceProfile, probe: &Probe, math: bool) -> Result<Curve, DeviceError> {
    let fixed = profile.submit.seconds + profile.sync.seconds + profile.dispatch.seconds;
    let mut knots: Vec<Knot> = Vec::new();
    for &size in probe.sizes {
        let kernel: Kernel = if math { (probe.math)(size) } else { (probe.memory)(size) };
        let work = kernel.work();
        if work.bytes as usize > 3 * bench.effort.largest_bytes || bench.device.supports(&kernel).is_err() {
            break;
        }
        let sample = bench.kernels(std::slice::from_ref(&kernel))?;
        let at = if math { work.flops } else { work.bytes };
        if at > 0 {
            knots.push(knot(at as f64, sample.seconds - fixed, &sample));
        }
        if sample.wall >= bench.effort.longest {
            break;
        }
    }
    Ok(Curve::new(knots).expect("sizes are different and times positive"))
}

fn knot(at: f64, seconds: f64, sample: &measure::Sample) -> Knot {
    Knot { spread: sample.spread, count: sample.count, ..Knot::new(at, seconds.max(SHORTEST)) }
}
