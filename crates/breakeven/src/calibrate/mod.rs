//! Calibration: measures a device through the same seam that plans use.

mod call;
#[cfg(test)]
mod held_out;
mod kernels;
mod measure;
mod passes;
mod rounds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Device, DeviceError, DeviceInfo, DeviceKind, HostBytes};
use breakeven_ir::Kernel;
use breakeven_plan::{Between, ClassCurves, Cost, Curve, DeviceProfile, Knot, Mix, Profile, Trust, class_name};

use kernels::{Families, Probe};
use measure::Bench;
use rounds::Sample;

/// What a calibration may cost.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Repeats of each measurement, and four times as many of short ones; the lower quartile counts.
    pub repeats: usize,
    /// Sizes grow no further once one run takes this long, because of its size.
    pub longest: Duration,
    /// Largest array, in bytes.
    pub largest_bytes: usize,
    /// What the result is called.
    pub trust: Trust,
}

impl Effort {
    /// A few seconds.
    pub const QUICK: Effort =
        Effort { repeats: 5, longest: Duration::from_millis(4), largest_bytes: 16 << 20, trust: Trust::Quick };
    /// Up to a minute.
    pub const FULL: Effort =
        Effort { repeats: 15, longest: Duration::from_millis(200), largest_bytes: 256 << 20, trust: Trust::Full };
}

/// Counted up with every change of what is measured, or how: a profile that an earlier build of the same version kept would price work by figures that
/// this one would not find.
pub(crate) const METHOD: u32 = 5;
/// Kernels that are compiled together: as many threads as drivers compile on.
const AT_ONCE: usize = 8;
/// Steps in one segment when the cost of one more of them is measured.
const STEPS: usize = 8;
/// A step faster than the clock can tell is taken to last this long.
const SHORTEST: f64 = 1e-9;

/// What is known of a device before anything was measured: nothing, so the CPU does the work.
pub(crate) fn unmeasured(info: &DeviceInfo) -> DeviceProfile {
    DeviceProfile { name: info.name.clone(), driver: info.driver.clone(), ..DeviceProfile::default() }
}

/// The profile of a device among those measured earlier, where it has every class of kernels that there is now.
pub(crate) fn known(profile: Option<&Profile>, info: &DeviceInfo) -> Option<DeviceProfile> {
    let same = |p: &&DeviceProfile| p.name == info.name && p.driver == info.driver && p.trust != Trust::Builtin;
    let is_whole = |p: &&DeviceProfile| kernels::PROBES.iter().all(|k| p.classes.contains_key(class_name(k.class)));
    profile?.devices.iter().find(same).filter(is_whole).cloned()
}

/// What a device measured of itself earlier, whatever else is known of it.
pub(crate) fn known_tuning(profile: Option<&Profile>, info: &DeviceInfo) -> BTreeMap<String, f64> {
    let mut devices = profile.iter().flat_map(|p| &p.devices);
    devices.find(|p| p.name == info.name && p.driver == info.driver).map(|p| p.tuning.clone()).unwrap_or_default()
}

/// Has a device measure the numbers it works by and nothing else: enough where there is nothing to compare it with.
pub(crate) fn tune(device: &Arc<dyn Device>, profile: DeviceProfile) -> Result<DeviceProfile, DeviceError> {
    Ok(DeviceProfile { tuning: device.tune(Effort::QUICK.largest_bytes as u64)?, ..profile })
}

/// Measures one device.
pub fn measure(device: &Arc<dyn Device>, effort: Effort) -> Result<DeviceProfile, DeviceError> {
    measure_while(device, effort, &|| true)
}

/// As [`measure()`], and an error once `go_on` says no.
pub(crate) fn measure_while(
    device: &Arc<dyn Device>,
    effort: Effort,
    go_on: &dyn Fn() -> bool,
) -> Result<DeviceProfile, DeviceError> {
    let bench = Bench { device, effort, go_on };
    let mut profile = unmeasured(device.info());
    bench.is_wanted()?;
    // First, since everything else depends on it.
    profile.tuning = device.tune(effort.largest_bytes as u64)?;
    let is_card = !device.caps().host_memory && device.info().kind != DeviceKind::Software;
    let wake = || if is_card { bench.wake(kernels::square) } else { Ok(()) };
    if is_card {
        compile(&bench)?;
    }
    wake()?;
    overheads(&bench, &mut profile)?;
    if !device.caps().host_memory {
        let fixed = fixed(&profile);
        profile.upload = link(&bench, fixed, true)?;
        profile.download = link(&bench, fixed, false)?;
    }
    profile.classes = classes(&bench, &profile)?;
    profile.trust = effort.trust;
    bench.is_wanted()?;
    call::settle(device, effort, profile, &wake)
}

/// Times of all classes. The host's cores do other things too, which take milliseconds and only make kernels longer: they are measured
/// twice, and what was quieter counts. A card's kernels are its own.
fn classes(bench: &Bench<'_>, profile: &DeviceProfile) -> Result<BTreeMap<String, ClassCurves>, DeviceError> {
    let pass = || -> Result<BTreeMap<String, ClassCurves>, DeviceError> {
        let mut all = BTreeMap::new();
        for probe in kernels::PROBES {
            let like = probe.like.filter(|_| !is_its_own(bench, probe)).and_then(|class| all.get(class_name(class)));
            let curves = like.cloned().map_or_else(|| class(bench, profile, probe), Ok)?;
            all.insert(class_name(probe.class).to_owned(), curves);
        }
        Ok(all)
    };
    let once = pass()?;
    if bench.device.caps().host_memory { Ok(passes::quieter(once, pass()?)) } else { Ok(once) }
}

/// Times of one custom operation, from launches of different sizes and what they read. A launch is arithmetic and memory at
/// once, and nobody can tell them apart, so both curves have its whole time.
pub(crate) fn measure_custom(
    device: &Arc<dyn Device>,
    dispatch: Cost,
    launches: &[(Kernel, Vec<HostBytes>)],
) -> Result<ClassCurves, DeviceError> {
    let bench = Bench { device, effort: Effort::QUICK, go_on: &|| true };
    let (mut math, mut memory) = (Vec::new(), Vec::new());
    for (kernel, inputs) in launches {
        let (one, many) = bench.kernel_over(kernel, inputs, STEPS)?;
        let (work, seconds) = (kernel.work(), step_seconds(&one, &many) - dispatch.seconds);
        for (knots, at) in [(&mut math, work.flops), (&mut memory, work.bytes)] {
            if at > 0 && knots.iter().all(|known: &Knot| known.at != at as f64) {
                knots.push(knot(at as f64, seconds, &one));
            }
        }
    }
    Ok(ClassCurves { math: line(math), memory: line(memory), ..ClassCurves::default() })
}

/// Has a GPU compile all that is measured, several kernels at once: while it waits for that, it lowers its clock.
fn compile(bench: &Bench<'_>) -> Result<(), DeviceError> {
    let most = kernels::PROBES.iter().map(|probe| probe.sizes.len()).max().unwrap_or(0);
    let families = |probe: &'static Probe| {
        let one_row = probe.one_row.map(|of_one| (of_one, kernels::LENGTHS));
        [(probe.usual, probe.sizes)].into_iter().chain(one_row)
    };
    for nth in 0..most {
        let of = |(families, sizes): (Families, &[usize])| {
            let size = sizes.get(nth).copied();
            size.map(|size| families.all().map(move |of| of(size))).into_iter().flatten()
        };
        let probes = kernels::PROBES.iter().filter(|probe| is_its_own(bench, probe));
        let all = probes.flat_map(families).flat_map(of);
        let all: Vec<Kernel> = all.filter(|kernel| is_measured(bench, kernel)).collect();
        // Few enough that whoever waits for the end of this does not wait long.
        all.chunks(AT_ONCE).try_for_each(|some| bench.compile(some))?;
    }
    Ok(())
}

/// Whether the device has a way of its own for what `probe` measures.
fn is_its_own(bench: &Bench<'_>, probe: &Probe) -> bool {
    let is_lowered = |&size: &usize| bench.device.lowers(&(probe.usual.math)(size)).is_some();
    probe.like.is_none() || probe.sizes.iter().any(is_lowered)
}

/// False for what is too large for this effort, and for what the device cannot run.
fn is_measured(bench: &Bench<'_>, kernel: &Kernel) -> bool {
    kernel.work().bytes as usize <= 3 * bench.effort.largest_bytes && bench.device.supports(kernel).is_ok()
}

/// Submit, dispatch and sync, from the smallest launch.
fn overheads(bench: &Bench<'_>, profile: &mut DeviceProfile) -> Result<(), DeviceError> {
    let (one, many) = bench.kernel(&kernels::smallest(), STEPS)?;
    let dispatch = ((many.seconds - one.seconds) / (STEPS - 1) as f64).max(SHORTEST);
    let fixed = (one.seconds - dispatch).max(SHORTEST);
    // What the caller pays before and after the device works: told apart by when submit returned.
    let submit = one.submit_seconds.clamp(SHORTEST, fixed);
    let cost = |seconds: f64, of: &Sample| Cost { seconds, spread: seconds * of.spread };
    profile.dispatch = cost(dispatch, &many);
    profile.submit = cost(submit, &one);
    profile.sync = cost((fixed - submit).max(SHORTEST), &one);
    Ok(())
}

/// Seconds of a copy against its bytes, without what every submission costs. A lone copy has nothing to overlap with: what one
/// more of many adds is less.
fn link(bench: &Bench<'_>, fixed: f64, up: bool) -> Result<Curve, DeviceError> {
    let mut knots = Vec::new();
    let mut bytes = 1 << 10;
    while bytes <= bench.effort.largest_bytes {
        let (one, many) = if up { bench.upload(bytes, STEPS)? } else { bench.download(bytes, STEPS)? };
        knots.push(knot(bytes as f64, step_seconds(&one, &many).max(one.seconds - fixed), &one));
        if one.wall >= bench.effort.longest {
            break;
        }
        bytes *= 4;
    }
    Ok(line(knots))
}

/// What was measured of kernels of one kind and many sizes.
struct Family {
    by_flops: Curve,
    by_bytes: Curve,
    mix: Curve,
}

/// Times of a class, without what every launch costs.
fn class(bench: &Bench<'_>, profile: &DeviceProfile, probe: &Probe) -> Result<ClassCurves, DeviceError> {
    let of = |families: Families, sizes: &[usize]| -> Result<ClassCurves, DeviceError> {
        let math = family(bench, profile, sizes, families.math)?;
        let other = families.memory.map(|memory| family(bench, profile, sizes, memory)).transpose()?;
        let mix = other.as_ref().map(|memory| Mix { math: math.mix, memory: memory.mix.clone() });
        let memory = other.map_or(math.by_bytes, |memory| memory.by_bytes);
        let one = |&of: &fn(usize) -> Kernel| {
            let Family { by_bytes: seconds, mix: flops, .. } = family(bench, profile, sizes, of)?;
            Ok(Between { seconds, flops })
        };
        let between = families.between.iter().map(one).collect::<Result<_, DeviceError>>()?;
        Ok(ClassCurves { math: math.by_flops, memory, mix, between, one_row: None })
    };
    let one_row = probe.one_row.map(|of_one| of(of_one, kernels::LENGTHS)).transpose()?.map(Box::new);
    Ok(ClassCurves { one_row, ..of(probe.usual, probe.sizes)? })
}

/// Seconds of kernels against their arithmetic and against their bytes, without what every launch costs; and their arithmetic
/// against their bytes.
fn family(
    bench: &Bench<'_>,
    profile: &DeviceProfile,
    sizes: &[usize],
    of: fn(usize) -> Kernel,
) -> Result<Family, DeviceError> {
    let (mut by_flops, mut by_bytes, mut mix) = (Vec::new(), Vec::new(), Vec::new());
    let (mut before, lone_from) = (None, lone_from(bench, profile));
    for &size in sizes {
        let kernel = of(size);
        if !is_measured(bench, &kernel) {
            break;
        }
        let work = kernel.work();
        let (one, many) = bench.kernel_or_lone(&kernel, STEPS, lone_from)?;
        let seconds = kernel_seconds(profile, &one, many.as_ref());
        let at = |size: u64| knot(size as f64, seconds, &one);
        by_bytes.push(at(work.bytes));
        if work.flops > 0 {
            by_flops.push(at(work.flops));
            mix.push(Knot::new(work.bytes as f64, work.flops as f64));
        }
        if follows_size(before.replace(seconds), seconds) && one.wall >= bench.effort.longest {
            break;
        }
    }
    Ok(Family { by_flops: line(by_flops), by_bytes: line(by_bytes), mix: line(mix) })
}

/// Whether a size takes longer than the one before because it is larger. Where a launch takes long at any size, as on a driver that
/// computes on the processor, larger sizes would be priced at as many times the smallest one otherwise.
fn follows_size(before: Option<f64>, seconds: f64) -> bool {
    before.is_some_and(|before| seconds >= 2.0 * before)
}

/// What one more step costs: the difference cancels everything that a batch costs once, however that drifts.
fn step_seconds(one: &Sample, many: &Sample) -> f64 {
    (many.seconds - one.seconds) / (STEPS - 1) as f64
}

/// What the kernel itself takes.
fn kernel_seconds(profile: &DeviceProfile, one: &Sample, many: Option<&Sample>) -> f64 {
    many.map_or_else(|| one.seconds - fixed(profile), |many| step_seconds(one, many)) - profile.dispatch.seconds
}

/// From how many seconds on a lone launch says what a kernel takes. In a run of many on the host there is hardly one that none of its
/// cores is taken from meanwhile: a lone one counts, where it is so long that what a call costs beside it does not matter.
fn lone_from(bench: &Bench<'_>, profile: &DeviceProfile) -> Option<f64> {
    bench.device.caps().host_memory.then(|| BESIDE * fixed(profile))
}

/// What a call costs, however much is launched.
fn fixed(profile: &DeviceProfile) -> f64 {
    profile.submit.seconds + profile.sync.seconds
}

/// What a call costs is nothing beside a kernel that takes so many times as long.
const BESIDE: f64 = 5.0;

fn line(knots: Vec<Knot>) -> Curve {
    Curve::new(knots).expect("sizes are different and times positive")
}

fn knot(at: f64, seconds: f64, sample: &Sample) -> Knot {
    Knot { spread: sample.spread, count: sample.count, ..Knot::new(at, seconds.max(SHORTEST)) }
}

#[cfg(test)]
mod tests {
    use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};

    use super::*;

    /// A card, and as little effort as measures all of it.
    pub(super) fn simulated() -> (Arc<dyn Device>, Effort) {
        let us = Duration::from_micros;
        let speed = SimSpeed {
            per_submit: us(7),
            per_launch: us(1),
            per_wait: us(9),
            flops_per_second: 1e12,
            bytes_per_second: 1e11,
            link_latency: us(3),
            link_bytes_per_second: 1e10,
        };
        let device = SimDevice::new(SimOptions::new("sim", speed), &SimClock::new());
        (Arc::new(device), Effort { repeats: 1, largest_bytes: 1 << 10, ..Effort::QUICK })
    }

    #[test]
    fn what_a_device_makes_no_lower_products_of_is_not_measured_twice() {
        let (device, effort) = simulated();
        let classes = measure(&device, effort).unwrap().classes;
        assert_eq!(classes["matmul_f16"], classes["matmul"]);
        assert_ne!(classes["matmul_int"], classes["matmul"]);
    }

    #[test]
    fn sizes_grow_until_time_follows_from_them() {
        assert!(!follows_size(None, 1e-3), "one size says nothing of the next");
        assert!(!follows_size(Some(9e-4), 1e-3) && !follows_size(Some(1e-3), 1e-9));
        assert!(follows_size(Some(1e-3), 2e-3));
    }
}
