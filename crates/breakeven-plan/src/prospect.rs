//! Whether work could gain by a GPU that nobody has looked for yet.

use breakeven_ir::Class;

use crate::{Curve, DeviceId, DeviceProfile, Plan, Profile, Step, Trust};

/// What is taken to hold of a machine as long as nothing was measured on it. Each number errs towards looking for a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// Seconds that the quickest GPU takes for the smallest work: handing it over, launching it, waiting for it.
    pub gpu_seconds: f64,
    /// Bytes that a GPU takes in within a second.
    pub upload_bytes: f64,
    /// Bytes that a kernel on the CPU moves in a second.
    pub cpu_bytes: f64,
    /// Arithmetic operations that a kernel on the CPU does in a second.
    pub cpu_flops: f64,
}

impl Default for Prospect {
    /// Half of the shortest time that wgpu was seen to take for one dispatch, and a fraction of what one core does.
    fn default() -> Prospect {
        Prospect { gpu_seconds: 20e-6, upload_bytes: f64::INFINITY, cpu_bytes: 10e9, cpu_flops: 10e9 }
    }
}

impl Prospect {
    /// With what this machine was measured to take, where it was.
    pub fn of(profile: Option<&Profile>) -> Prospect {
        let devices = profile.map_or(&[][..], |profile| &profile.devices);
        let is_measured = |device: &&DeviceProfile| device.trust != Trust::Builtin;
        let gpus = || devices.iter().skip(1).filter(is_measured);
        let fixed = gpus().map(|d| d.submit.seconds + d.dispatch.seconds + d.sync.seconds).reduce(f64::min);
        let upload = gpus().map(|d| rate(&d.upload).unwrap_or(f64::INFINITY)).reduce(f64::max);
        let cpu = devices.first().filter(is_measured).and_then(|d| rate(&d.class(Class::Map)?.memory));
        let prior = Prospect::default();
        Prospect {
            gpu_seconds: fixed.unwrap_or(prior.gpu_seconds),
            upload_bytes: upload.unwrap_or(prior.upload_bytes),
            cpu_bytes: cpu.unwrap_or(prior.cpu_bytes),
            ..prior
        }
    }

    /// False when no GPU would have a result before the CPU, whatever it is.
    pub fn could_gain(&self, plan: &Plan) -> bool {
        let seconds = if plan.predicted.seconds > 0.0 { plan.predicted.seconds } else { self.seconds(plan) };
        seconds > self.gpu_seconds
    }

    /// False for data that the CPU has gone through before any GPU has it: what is done with it then tells.
    pub fn is_much(&self, bytes: u64) -> bool {
        bytes as f64 / self.cpu_bytes > self.gpu_seconds + bytes as f64 / self.upload_bytes
    }

    /// What the CPU's part of a plan takes at most on a machine that was not measured.
    fn seconds(&self, plan: &Plan) -> f64 {
        let one = |step: &Step| match step {
            Step::Run { device: DeviceId::HOST, launch } => {
                let work = launch.kernel.work();
                (work.flops as f64 / self.cpu_flops).max(work.bytes as f64 / self.cpu_bytes)
            }
            _ => 0.0,
        };
        plan.steps.iter().map(one).sum()
    }
}

/// Units of a curve's largest size in a second.
fn rate(curve: &Curve) -> Option<f64> {
    let size = curve.knots().last()?.at;
    Some(size / curve.at(size)?.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassCurves, Cost};

    fn measured(trust: Trust, seconds: f64) -> DeviceProfile {
        DeviceProfile { trust, sync: Cost { seconds, spread: 0.0 }, ..DeviceProfile::default() }
    }

    #[test]
    fn the_quickest_gpu_that_was_measured_counts() {
        let check = |devices: Vec<DeviceProfile>, expected: f64| {
            let profile = Profile { devices, ..Profile::new("") };
            assert_eq!(Prospect::of(Some(&profile)).gpu_seconds, expected);
        };
        let (cpu, prior) = (measured(Trust::Quick, 1e-9), Prospect::default().gpu_seconds);
        assert_eq!(Prospect::of(None).gpu_seconds, prior);
        check(vec![cpu.clone()], prior);
        check(vec![cpu.clone(), measured(Trust::Builtin, 0.0)], prior);
        check(vec![cpu, measured(Trust::Quick, 70e-6), measured(Trust::Full, 50e-6)], 50e-6);
    }

    #[test]
    fn data_is_much_from_the_time_on_in_which_a_gpu_begins() {
        let prospect = Prospect { gpu_seconds: 1e-5, cpu_bytes: 1e10, ..Prospect::default() };
        assert!(!prospect.is_much(100_000) && prospect.is_much(100_001));
    }

    #[test]
    fn data_that_takes_longer_to_the_gpu_than_through_the_cpu_is_never_much() {
        let cpu = |trust: Trust, rate: f64| {
            let memory = ClassCurves { memory: Curve::rate(rate), ..ClassCurves::default() };
            DeviceProfile { trust, classes: [("map".to_owned(), memory)].into(), ..DeviceProfile::default() }
        };
        let gpu = |rate: f64| DeviceProfile { upload: Curve::rate(rate), ..measured(Trust::Quick, 1e-5) };
        let check = |devices: Vec<DeviceProfile>, is_much: bool| {
            let profile = Profile { devices, ..Profile::new("") };
            assert_eq!(Prospect::of(Some(&profile)).is_much(1 << 30), is_much, "{profile:?}");
        };
        check(vec![cpu(Trust::Quick, 1e11), gpu(5e10)], false);
        check(vec![cpu(Trust::Quick, 1e10), gpu(5e10)], true);
        check(vec![cpu(Trust::Builtin, 1e11), gpu(5e10)], true);
        check(vec![cpu(Trust::Quick, 1e11), gpu(5e10), measured(Trust::Quick, 1e-5)], true);
        check(vec![cpu(Trust::Quick, 1e11)], true);
    }
}
