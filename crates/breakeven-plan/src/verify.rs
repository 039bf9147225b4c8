//! Checks of what every pass promises. Debug builds run them after each pass; release builds trust the passes.

use std::collections::BTreeMap;

use breakeven_ir::{Kernel, Operand};

use crate::program::{Fused, Program, Wanted};
use crate::schedule::Schedule;
use crate::slots::{Slots, touched};
use crate::{DeviceId, Plan, Step};

/// After `fuse` and `lower`: operands lie inside values of their type, and values are written before they are read.
pub(crate) fn check_program(program: &Program) -> Result<(), String> {
    let mut written: Vec<bool> = program.values.iter().map(|value| value.is_input).collect();
    for (at, fused) in program.kernels.iter().enumerate() {
        check_kernel(program, fused).map_err(|why| format!("kernel {at}: {why}"))?;
        if let Some(value) = fused.inputs.iter().find(|&&value| !written[value]) {
            return Err(format!("kernel {at} reads value {value} before it is written"));
        }
        for &value in &fused.outputs {
            written[value] = true;
        }
    }
    let missing = |wanted: &&Wanted| matches!(wanted, Wanted::Value { value, .. } if !written[*value]);
    match program.wanted.iter().find(missing) {
        Some(wanted) => Err(format!("nothing writes {wanted:?}")),
        None => Ok(()),
    }
}

fn check_kernel(program: &Program, fused: &Fused) -> Result<(), String> {
    let (inputs, outputs) = (fused.kernel.inputs(), fused.kernel.outputs());
    if inputs.len() != fused.inputs.len() || outputs.len() != fused.outputs.len() {
        return Err("it does not bind as many values as it has operands".to_owned());
    }
    let bound = inputs.iter().zip(&fused.inputs).chain(outputs.iter().zip(&fused.outputs));
    for (operand, &value) in bound {
        let value = &program.values[value];
        if operand.dtype != value.dtype || operand.span_bytes() > value.bytes {
            return Err(format!("{operand:?} does not lie in {value:?}"));
        }
    }
    let overlap = |o: &&&Operand| !o.layout.is_injective();
    outputs.iter().find(overlap).map_or(Ok(()), |o| Err(format!("{o:?} writes one place twice")))
}

/// After `place`: kernels that write one value are on one device.
pub(crate) fn check_devices(program: &Program, devices: &[DeviceId]) -> Result<(), String> {
    let mut of_value: BTreeMap<usize, DeviceId> = BTreeMap::new();
    for (fused, &device) in program.kernels.iter().zip(devices) {
        if let Some(value) = fused.outputs.iter().find(|&&value| *of_value.entry(value).or_insert(device) != device) {
            return Err(format!("value {value} is written on two devices"));
        }
    }
    Ok(())
}

/// After `slots`: no two values that live at one time share a slot, but for an elementwise launch that writes over what
/// it reads last.
pub(crate) fn check_slots(program: &Program, schedule: &Schedule, slots: &Slots) -> Result<(), String> {
    let mut lives: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut slot_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, (before, after)) in schedule.steps.iter().zip(&slots.steps).enumerate() {
        let both = |step: &Step| {
            let (read, written) = touched(step);
            read.into_iter().chain(written).collect::<Vec<_>>()
        };
        for (replica, slot) in both(before).into_iter().zip(both(after)) {
            lives.entry(replica).or_insert((at, at)).1 = at;
            slot_of.insert(replica, slot);
        }
    }
    for &kept in schedule.found.iter().flatten() {
        lives.entry(kept).and_modify(|life| life.1 = usize::MAX);
    }
    let mut by_slot: BTreeMap<usize, Vec<(usize, usize, usize)>> = BTreeMap::new();
    for (&replica, &(first, last)) in &lives {
        by_slot.entry(slot_of[&replica]).or_default().push((first, last, replica));
    }
    for (slot, mut tenants) in by_slot {
        tenants.sort_unstable();
        let large = |tenant: &(usize, usize, usize)| program.values[schedule.replicas[tenant.2].value].bytes;
        if tenants.iter().any(|tenant| large(tenant) > slots.all[slot].bytes) {
            return Err(format!("slot {slot} is too small"));
        }
        for pair in tenants.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let handed_over = a.1 == b.0 && is_map(&schedule.steps[b.0]);
            if a.1 >= b.0 && !handed_over {
                return Err(format!("replicas {} and {} share slot {slot} while both live", a.2, b.2));
            }
        }
    }
    Ok(())
}

fn is_map(step: &Step) -> bool {
    matches!(step, Step::Run { launch, .. } if matches!(launch.kernel, Kernel::Map(_)))
}

impl Plan {
    /// Checks what an executor relies on: operands inside slots, slots written before they are read, one device for each
    /// step, and in-place writes only by elementwise launches over equal layouts.
    pub fn verify(&self) -> Result<(), String> {
        let mut written: Vec<bool> = self.slots.iter().map(|slot| slot.source.is_some()).collect();
        for (at, step) in self.steps.iter().enumerate() {
            let (read, writes) = touched(step);
            if let Some(slot) = read.iter().find(|&&slot| !written[slot]) {
                return Err(format!("step {at} reads slot {slot} before it is written"));
            }
            if let Some(slot) = writes.iter().find(|&&slot| self.slots[slot].source.is_some()) {
                return Err(format!("step {at} writes slot {slot}, which is the caller's"));
            }
            if let Step::Run { device, launch } = step {
                self.check_launch(*device, launch).map_err(|why| format!("step {at}: {why}"))?;
            }
            for slot in writes {
                written[slot] = true;
            }
        }
        Ok(())
    }

    fn check_launch(&self, device: DeviceId, launch: &breakeven_ir::Launch) -> Result<(), String> {
        let (inputs, outputs) = (launch.kernel.inputs(), launch.kernel.outputs());
        let reads = || inputs.iter().zip(&launch.inputs);
        let writes = || outputs.iter().zip(&launch.outputs);
        for (operand, &slot) in reads().chain(writes()) {
            if self.slots[slot].device != device || operand.span_bytes() > self.slots[slot].bytes {
                return Err(format!("{operand:?} does not lie in slot {slot} of {:?}", self.slots[slot].device));
            }
        }
        let is_map = matches!(launch.kernel, Kernel::Map(_));
        let clash = |(out, slot): (&&Operand, &usize)| {
            reads().any(|(operand, other)| other == slot && !(is_map && operand.layout == out.layout))
        };
        if writes().any(clash) {
            return Err("it writes over what it still reads".to_owned());
        }
        Ok(())
    }
}
