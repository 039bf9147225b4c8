//! Reasons: what each kernel's placement is explained by.

use breakeven_ir::{Class, Precision, Work};

use super::model::Model;
use super::offers::{Market, Offer, Refusal};
use super::{Choice, DeviceId};
use crate::explain::describe;
use crate::program::{Fused, Program};
use crate::{Decision, Flip, Parts, PlanError, Reason};

type Offers = [Result<Offer, Refusal>];

/// Why each kernel runs where it does.
pub(crate) fn decisions(
    market: &Market<'_>,
    program: &Program,
    model: &Model,
    offers: &[Vec<Result<Offer, Refusal>>],
    choice: &Choice,
) -> Vec<Decision> {
    let deciding = Deciding { market, model, choice };
    (0..program.kernels.len()).map(|k| deciding.decision(k, &program.kernels[k], &offers[k])).collect()
}

struct Deciding<'a> {
    market: &'a Market<'a>,
    model: &'a Model,
    choice: &'a Choice,
}

impl Deciding<'_> {
    fn decision(&self, kernel: usize, fused: &Fused, offers: &Offers) -> Decision {
        let device = self.choice.devices[kernel];
        let others = || (0..offers.len()).map(DeviceId).filter(|&other| other != device);
        let parts = |device: DeviceId| self.parts(kernel, fused, offers[device.0].as_ref().ok()?, device);
        let predicted = parts(device);
        let better = |a: &(DeviceId, Parts), b: &(DeviceId, Parts)| a.1.seconds().total_cmp(&b.1.seconds());
        let runner_up = others().filter_map(|other| Some((other, parts(other)?))).min_by(better);
        let refused = |other: DeviceId| Some((other, offers[other.0].as_ref().err()?.text.clone()));
        Decision {
            nodes: fused.nodes.iter().map(|id| id.0).collect(),
            what: self.what(fused, device),
            products: self.products(fused, device),
            device,
            split: offers[device.0].as_ref().ok().and_then(Offer::split),
            largest_launch: offers[device.0].as_ref().map_or(0, |offer| offer.largest_launch(fused)),
            reason: self.reason(kernel, fused, offers, predicted, runner_up),
            predicted,
            cost: offers[device.0].as_ref().ok().and_then(Offer::cost),
            runner_up,
            excluded: others().filter_map(refused).collect(),
            source: self.market.machine.device(device).profile.trust,
            flip: self.flip(fused, device, predicted, runner_up),
        }
    }

    fn what(&self, fused: &Fused, device: DeviceId) -> String {
        let (what, class) = (describe(&fused.kernel), fused.kernel.class());
        let is_guess =
            matches!(class, Class::Custom(_)) && !self.market.machine.device(device).profile.is_measured(class);
        if is_guess { format!("{what}, priced as a map since it was not measured") } else { what }
    }

    /// How a product is made whose caller would do with less than the highest precision.
    fn products(&self, fused: &Fused, device: DeviceId) -> Option<String> {
        if fused.kernel.precision() == Precision::Highest {
            return None;
        }
        let lowered = (self.market.machine.device(device).lowers)(&fused.kernel);
        Some(lowered.unwrap_or("products as at the highest precision").to_owned())
    }

    fn reason(
        &self,
        kernel: usize,
        fused: &Fused,
        offers: &Offers,
        predicted: Option<Parts>,
        runner_up: Option<(DeviceId, Parts)>,
    ) -> Reason {
        if self.market.asked_for(fused).is_some() {
            return self.market.reason_asked();
        }
        if self.choice.is_probe {
            return Reason::Probe;
        }
        if self.choice.rejected.as_ref().is_some_and(|rejected| rejected[kernel] != self.choice.devices[kernel]) {
            return Reason::Guard;
        }
        let work = |parts: Parts| parts.dispatch + parts.kernel;
        match (predicted, runner_up) {
            (Some(chosen), Some((_, other))) if work(other) < work(chosen) => Reason::Resident,
            (None, Some(_)) => Reason::Unmeasured,
            (Some(_), Some(_)) => Reason::Cut,
            _ => why_alone(self.choice.devices[kernel], offers),
        }
    }

    /// What the kernel would cost on a device, everything else being where it is. `None` where it is unmeasured.
    fn parts(&self, kernel: usize, fused: &Fused, offer: &Offer, device: DeviceId) -> Option<Parts> {
        let space = self.model.space[device.0];
        let labels = &self.choice.devices;
        let into = |value: usize| {
            let has = self.model.has(labels, value);
            if has.contains(&space) { 0.0 } else { self.model.bring(value, &has, space) }
        };
        let out = |value: usize| -> f64 {
            let used = &self.model.values[value];
            let readers = used.readers.iter().map(|&reader| self.model.space_of(labels, reader));
            let mut needs: Vec<usize> = readers.chain(used.is_read.then_some(0)).filter(|&to| to != space).collect();
            needs.sort_unstable();
            needs.dedup();
            needs.into_iter().map(|to| used.copy[space][to]).sum()
        };
        let mut reads = fused.inputs.clone();
        reads.sort_unstable();
        reads.dedup();
        let copy = reads.into_iter().map(into).sum::<f64>() + fused.outputs.iter().map(|&v| out(v)).sum::<f64>();
        let waited = fused.outputs.iter().any(|&value| self.is_waited_for(value, kernel, device));
        let sync = if waited { self.model.fixed[device.0].1 } else { 0.0 };
        let begins = if self.begins_a_run(fused, device) { self.model.fixed[device.0].0 } else { 0.0 };
        Some(Parts { copy, dispatch: offer.dispatch?.seconds + begins, kernel: offer.kernel?.seconds, sync })
    }

    /// What would have to be different for the runner-up to win.
    fn flip(
        &self,
        fused: &Fused,
        device: DeviceId,
        predicted: Option<Parts>,
        runner_up: Option<(DeviceId, Parts)>,
    ) -> Option<Flip> {
        let ((other, theirs), ours) = (runner_up?, predicted?);
        let work = self.market.cost.work_of(&fused.kernel);
        let class = fused.kernel.class();
        let at = |device: DeviceId, parts: Parts, times: f64| {
            let scaled = |n: u64| (n as f64 * times) as u64;
            let (flops, bytes, elements) = (scaled(work.flops), scaled(work.bytes), scaled(work.elements));
            let work = Work { flops, bytes, elements, ..work };
            let kernel = self.market.cost.work(device, class, work).map_or(0.0, |cost| cost.seconds);
            kernel + parts.dispatch + parts.sync + parts.copy * times
        };
        let wins = |times: f64| at(other, theirs, times) < at(device, ours, times);
        let if_resident = theirs.copy > 0.0 && theirs.dispatch + theirs.kernel < ours.seconds();
        let at_times = if wins(1.0) { None } else { nearest_crossing(&wins) };
        Some(Flip { device: other, if_resident, at_times })
    }

    /// Nothing that it reads was computed on the device, so the device must be handed work for it.
    fn begins_a_run(&self, fused: &Fused, device: DeviceId) -> bool {
        let on_device = |&writer: &usize| self.choice.devices[writer] == device;
        !fused.inputs.iter().flat_map(|&value| &self.model.values[value].writers).any(on_device)
    }

    fn is_waited_for(&self, value: usize, kernel: usize, device: DeviceId) -> bool {
        let used = &self.model.values[value];
        let elsewhere = |&reader: &usize| reader != kernel && self.choice.devices[reader] != device;
        used.is_read || used.readers.iter().any(elsewhere)
    }
}

/// The factor nearest to 1, to a hundredth, at which the other device wins.
fn nearest_crossing(wins: &dyn Fn(f64) -> bool) -> Option<f64> {
    const DOUBLINGS: i32 = 20;
    let (near, far) = (1..=DOUBLINGS)
        .flat_map(|n| [(2f64.powi(n - 1), 2f64.powi(n)), (2f64.powi(1 - n), 2f64.powi(-n))])
        .find(|&(_, far)| wins(far))?;
    let halve = |(near, far): (f64, f64), _| {
        let middle = (near * far).sqrt();
        if wins(middle) { (near, middle) } else { (middle, far) }
    };
    Some((0..8).fold((near, far), halve).1)
}

/// Why no other device was in question.
fn why_alone(chosen: DeviceId, offers: &Offers) -> Reason {
    let refusals = || offers.iter().enumerate().filter(|(d, _)| *d != chosen.0).filter_map(|(_, o)| o.as_ref().err());
    let has = |reason: Reason| refusals().any(|refusal| refusal.reason == reason);
    let told = [Reason::Memory, Reason::Unmeasured, Reason::Unsupported];
    told.into_iter().find(|&reason| has(reason)).unwrap_or(Reason::CpuFirst)
}

/// The error for a kernel that no device offers to run.
pub(crate) fn nowhere(market: &Market<'_>, fused: &Fused, offers: &Offers) -> PlanError {
    let what = describe(&fused.kernel);
    if let Some(asked) = market.asked_for(fused) {
        let device = market.machine.device(asked).name.clone();
        let reason = offers[asked.0]
            .as_ref()
            .err()
            .map_or("another kernel that writes the same tensor cannot run there", |r| &r.text);
        return PlanError::Pinned { device, what, reason: reason.to_owned() };
    }
    let names = market.machine.devices.iter().map(|view| view.name.as_str());
    let told = names.zip(offers).map(|(name, offer)| match offer {
        Ok(_) => format!("{name}: it must run beside another kernel, which cannot"),
        Err(refusal) => format!("{name}: {}", refusal.text),
    });
    PlanError::Nowhere { what, reason: told.collect::<Vec<_>>().join("; ") }
}
