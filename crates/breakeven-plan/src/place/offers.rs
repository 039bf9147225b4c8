//! What each device offers for each kernel: a price, or the reason why not.

use breakeven_ir::{Kernel, Work};

use crate::cost::CostModel;
use crate::lower::{Longest, Pieces, compose, split};
use crate::program::{Fused, Program};
use crate::{Cost, DeviceId, Machine, Policy, Reason, Split};

/// What one device offers for one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Launching and running it; `None` where its class is unmeasured.
    pub dispatch: Option<Cost>,
    pub kernel: Option<Cost>,
    /// How it is split there, where it does not fit as it is.
    pub pieces: Option<Pieces>,
}

impl Offer {
    /// Seconds in all; nothing where unmeasured.
    pub fn seconds(&self) -> f64 {
        self.cost().map_or(0.0, |cost| cost.seconds)
    }

    /// Elements of the largest result among the launches.
    pub fn largest_launch(&self, fused: &Fused) -> u64 {
        let pieces = self.pieces.iter().flat_map(|pieces| &pieces.all).map(|piece| result_elements(&piece.kernel));
        pieces.max().unwrap_or_else(|| result_elements(&fused.kernel))
    }

    /// How it is split there, as explanations tell it.
    pub fn split(&self) -> Option<Split> {
        self.pieces.as_ref().map(|Pieces { all, because }| Split { launches: all.len(), because: because.clone() })
    }

    pub fn cost(&self) -> Option<Cost> {
        Some(self.dispatch?.then(self.kernel?))
    }
}

/// Why a device is out of the question for a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub reason: Reason,
    pub text: String,
}

impl Refusal {
    pub fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }
}

/// Devices that are not to be used at all, and why.
pub(crate) type Barred = std::collections::BTreeMap<DeviceId, String>;

/// Elements of the result that a kernel can be split over.
fn result_elements(kernel: &Kernel) -> u64 {
    kernel.outputs()[0].layout.shape.elements() as u64
}

/// A kernel that a device is asked to price.
#[derive(Clone, Copy)]
struct Order<'a> {
    fused: &'a Fused,
    work: Work,
    device: DeviceId,
    is_asked: bool,
}

/// What planning knows of the machine while it asks for offers.
pub(crate) struct Market<'a> {
    pub machine: &'a Machine<'a>,
    pub cost: &'a CostModel<'a>,
    pub policy: &'a Policy,
    pub barred: &'a Barred,
}

impl Market<'_> {
    /// Offers of every device for every kernel of a program.
    pub fn offers(&self, program: &Program) -> Vec<Vec<Result<Offer, Refusal>>> {
        let devices = || (0..self.machine.devices.len()).map(DeviceId);
        let of = |fused: &Fused| {
            let work = self.cost.work_of(&fused.kernel);
            devices().map(|device| self.offer(program, fused, work, device)).collect()
        };
        program.kernels.iter().map(of).collect()
    }

    fn offer(&self, program: &Program, fused: &Fused, work: Work, device: DeviceId) -> Result<Offer, Refusal> {
        let asked = self.asked_for(fused);
        if let Some(wanted) = asked.filter(|&wanted| wanted != device) {
            return Err(Refusal::new(self.reason_asked(), format!("device {} was asked for", wanted.0)));
        }
        let view = self.machine.device(device);
        // Where somebody insists on it, its driver decides.
        if let Some(why) = self.barred.get(&device).filter(|_| asked.is_none()) {
            return Err(Refusal::new(Reason::Memory, why.clone()));
        }
        if asked.is_none() && !view.automatic && device != DeviceId::HOST {
            return Err(Refusal::new(Reason::CpuFirst, "a software adapter is used only when asked for"));
        }
        let predict = |kernel: &Kernel| self.cost.run(device, kernel).map(|cost| cost.seconds);
        let elements = |kernel: &Kernel| Some(result_elements(kernel) as f64);
        let frozen = self.policy.frozen.as_ref().and_then(|frozen| frozen.largest_launch(&fused.nodes));
        // A frozen plan is split as it was, whatever the profile says now.
        let longest = match frozen {
            _ if view.caps.host_memory => Longest { limit: f64::INFINITY, measure: &predict },
            Some(largest) => Longest { limit: largest as f64, measure: &elements },
            None => Longest { limit: self.policy.max_launch_seconds, measure: &predict },
        };
        let pieces = split(fused, &program.values, view.caps, longest)?;
        let order = Order { fused, work, device, is_asked: asked.is_some() };
        match self.priced(order, pieces) {
            Err(refusal) if refusal.reason == Reason::Unsupported => {
                match compose(fused, view.caps, longest, &refusal.text)? {
                    Some(pieces) => self.priced(order, Some(pieces)),
                    None => Err(refusal),
                }
            }
            offer => offer,
        }
    }

    fn priced(&self, order: Order<'_>, pieces: Option<Pieces>) -> Result<Offer, Refusal> {
        let Order { fused, work, device, is_asked } = order;
        let view = self.machine.device(device);
        let whole = [&fused.kernel];
        let kernels: Vec<&Kernel> =
            pieces.as_ref().map_or(whole.to_vec(), |pieces| pieces.all.iter().map(|piece| &piece.kernel).collect());
        for kernel in &kernels {
            (view.supports)(kernel).map_err(|why| Refusal::new(Reason::Unsupported, why.0))?;
        }
        let sum = |costs: Option<Vec<Cost>>| costs.map(|costs| costs.into_iter().fold(Cost::ZERO, Cost::then));
        let kernel = match &pieces {
            None => self.cost.work(device, fused.kernel.class(), work),
            Some(_) => sum(kernels.iter().map(|kernel| self.cost.kernel(device, kernel)).collect()),
        };
        let dispatch = sum(Some(vec![view.profile.dispatch; kernels.len()])).filter(|_| kernel.is_some());
        let link = view.caps.host_memory
            || !view.profile.upload.knots().is_empty() && !view.profile.download.knots().is_empty();
        if !is_asked && device != DeviceId::HOST && (kernel.is_none() || !link) {
            let what = if link { "its class of kernels has" } else { "copies to it have" };
            return Err(Refusal::new(Reason::Unmeasured, format!("{what} not been measured there")));
        }
        Ok(Offer { dispatch, kernel, pieces })
    }

    /// The device that the caller insists on for a kernel.
    pub fn asked_for(&self, fused: &Fused) -> Option<DeviceId> {
        let pinned = || fused.nodes.iter().find_map(|node| self.policy.pins.get(node)).copied();
        let frozen = || self.policy.frozen.as_ref().and_then(|frozen| frozen.device(&fused.nodes));
        frozen().or_else(pinned).or(self.policy.pin)
    }

    /// How insisting is called.
    pub fn reason_asked(&self) -> Reason {
        if self.policy.frozen.is_some() { Reason::Frozen } else { Reason::Pinned }
    }
}
