//! The cost model: what a profile says about kernels and copies.

use std::cell::RefCell;
use std::collections::HashMap;

use breakeven_ir::{Class, Expr, Fold, Kernel, Operand, RowWise, Work};

use crate::{Cost, DeviceId, Machine, Place};

/// Predicts times on the devices of a machine.
#[derive(Debug)]
pub struct CostModel<'a> {
    machine: &'a Machine<'a>,
    /// Counting the arithmetic of an expression takes longer than finding what was counted before.
    known: RefCell<HashMap<Signature, Work>>,
}

/// All of a kernel that its work depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signature {
    class: Class,
    kind: u8,
    exprs: Vec<Expr>,
    operands: Vec<Operand>,
}

impl<'a> CostModel<'a> {
    /// A model of this machine.
    pub fn new(machine: &'a Machine<'a>) -> CostModel<'a> {
        CostModel { machine, known: RefCell::default() }
    }

    /// Launching and running a kernel, `None` where its class is unmeasured: dispatch and what its class's curves say.
    pub fn run(&self, device: DeviceId, kernel: &Kernel) -> Option<Cost> {
        let profile = self.machine.device(device).profile;
        Some(profile.dispatch.then(self.kernel(device, kernel)?))
    }

    /// Running a kernel, without launching it.
    pub fn kernel(&self, device: DeviceId, kernel: &Kernel) -> Option<Cost> {
        self.work(device, kernel.class(), self.work_of(kernel))
    }

    /// As [`CostModel::kernel`], for work of a class.
    pub fn work(&self, device: DeviceId, class: Class, work: Work) -> Option<Cost> {
        self.machine.device(device).profile.class(class)?.cost(work)
    }

    /// Bringing bytes from one place to another; `None` where that is unmeasured.
    pub fn copy(&self, from: Place, to: Place, bytes: u64) -> Option<Cost> {
        let leave = self.device_of(from).map(|device| self.machine.device(device).profile.download.at(bytes as f64));
        let enter = self.device_of(to).map(|device| self.machine.device(device).profile.upload.at(bytes as f64));
        match (leave, enter) {
            _ if from == to => Some(Cost::ZERO),
            (None, None) => Some(Cost::ZERO),
            (Some(cost), None) | (None, Some(cost)) => cost,
            (Some(leave), Some(enter)) => Some(leave?.then(enter?)),
        }
    }

    /// The device whose own memory a place is; `None` for the host's.
    fn device_of(&self, place: Place) -> Option<DeviceId> {
        match place {
            Place::Device(device) if !self.machine.device(device).caps.host_memory => Some(device),
            _ => None,
        }
    }

    /// What a kernel must do; counted once for kernels that differ in numbers only.
    pub fn work_of(&self, kernel: &Kernel) -> Work {
        // What a custom operation does is known to its own estimate alone; which keys are seen is no operand's.
        if matches!(kernel, Kernel::Custom(_) | Kernel::Attention(_)) {
            return kernel.work();
        }
        let signature = signature(kernel);
        if let Some(work) = self.known.borrow().get(&signature) {
            return *work;
        }
        let work = kernel.work();
        self.known.borrow_mut().insert(signature, work);
        work
    }
}

fn signature(kernel: &Kernel) -> Signature {
    let (kind, exprs) = match kernel {
        Kernel::Map(k) => (0, vec![k.expr.clone()]),
        Kernel::Reduce(k) => (u8::from(k.fold == Fold::Moments), vec![k.pre.clone(), k.post.clone()]),
        Kernel::RowWise(k) => (row_kind(k.kind), vec![k.pre.clone(), k.post.clone()]),
        Kernel::MatMul(k) => (0, vec![k.post.clone()]),
        Kernel::Conv(k) => (0, vec![k.post.clone()]),
        Kernel::Attention(_)
        | Kernel::Scan(_)
        | Kernel::Gather(_)
        | Kernel::Scatter(_)
        | Kernel::Custom(_)
        | Kernel::Sort(_) => (0, Vec::new()),
    };
    let operands = kernel.inputs().into_iter().chain(kernel.outputs()).cloned().collect();
    Signature { class: kernel.class(), kind, exprs, operands }
}

fn row_kind(kind: RowWise) -> u8 {
    match kind {
        RowWise::Softmax => 0,
        RowWise::LogSoftmax => 1,
        RowWise::LayerNorm { .. } => 2,
        RowWise::RmsNorm { .. } => 3,
    }
}
