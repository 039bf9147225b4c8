//! Whether work could gain by a GPU that nobody has looked for yet.

use crate::{DeviceId, Plan, Profile, Step, Trust};

/// What is taken to hold of a machine as long as nothing was measured on it. Each number errs towards looking for a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// Seconds that the quickest GPU takes for the smallest work: handing it over, launching it, waiting for it.
    pub gpu_seconds: f64,
    /// Bytes that a kernel on the CPU moves in a second.
    pub cpu_bytes: f64,
    /// Arithmetic operations that a kernel on the CPU does in a second.
    pub cpu_flops: f64,
}

impl Default for Prospect {
    /// Half of the shortest time that wgpu was seen to take for one dispatch, and a fraction of what one core does.
    fn default() -> Prospect {
        Prospect { gpu_seconds: 20e-6, cpu_bytes: 10e9, cpu_flops: 10e9 }
    }
}

impl Prospect {
    /// With what the GPUs of this machine were measured to take, where they were.
    pub fn of(profile: Option<&Profile>) -> Prospect {
        let others = profile.iter().flat_map(|p| p.devices.iter().skip(1)).filter(|d| d.trust != Trust::Builtin);
        let fixed = others.map(|d| d.submit.seconds + d.dispatch.seconds + d.sync.seconds);
        let prior = Prospect::default();
        Prospect { gpu_seconds: fixed.reduce(f64::min).unwrap_or(prior.gpu_seconds), ..prior }
    }

    /// False when no GPU would have a result before the CPU, whatever it is.
    pub fn could_gain(&self, plan: &Plan) -> bool {
        let seconds = if plan.predicted.seconds > 0.0 { plan.predicted.seconds } else { self.seconds(plan) };
        seconds > self.gpu_seconds
    }

    /// False for data that the CPU has gone through before any GPU would have begun.
    pub fn is_much(&self, bytes: u64) -> bool {
        bytes as f64 / self.cpu_bytes > self.gpu_seconds
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cost, DeviceProfile};

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
        let prospect = Prospect { gpu_seconds: 1e-5, cpu_bytes: 1e10, cpu_flops: 1e10 };
        assert!(!prospect.is_much(100_000) && prospect.is_much(100_001));
    }
}
