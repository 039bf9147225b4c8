//! A computed value: its bytes, wherever they are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{Element, Layout, Op, Spec};
use breakeven_plan::{DeviceId, Place, Source};
use smallvec::SmallVec;

use crate::Error;
use crate::devices::Snapshot;
use crate::tensor::Inputs;

/// Bytes of one tensor, on the host, on devices, or both; and how to compute them again if they are on no host.
#[derive(Debug)]
pub(crate) struct Value {
    pub spec: Spec,
    /// Where the elements lie in the bytes: computed values may be stored in another order than row-major.
    pub layout: Layout,
    /// Bytes that the storage needs.
    pub bytes: u64,
    /// The host's copy that it was made with.
    host: Option<HostBytes>,
    /// The host's copy that was made later; it stays.
    read: OnceLock<HostBytes>,
    /// Whether there may be copies on devices, to be looked at without their lock.
    may_be_resident: AtomicBool,
    copies: Mutex<Copies>,
    /// Extents that it was held against as an index, while it stands in for another value.
    limits: Option<Mutex<Vec<Limit>>>,
}

/// An extent that indices must not leave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    pub operation: &'static str,
    pub extent: usize,
}

/// Copies elsewhere than on the host, and how to do without.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copies {
    pub resident: Resident,
    /// How to compute the value again; kept only while no host copy exists.
    pub recipe: Option<Box<Recipe>>,
    /// The operation that made it, where it was computed.
    pub made_by: Option<&'static str>,
    /// The device that a copy was lost with.
    pub lost_with: Option<DeviceId>,
}

/// Copies on devices: nearly always one.
pub(crate) type Resident = SmallVec<[(DeviceId, Buffer); 1]>;

/// An operation and its inputs, and the bytes that keeping them holds.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub op: Op,
    pub inputs: Inputs,
    pub held_bytes: u64,
}

impl Value {
    /// A dense value on the host.
    pub fn on_host(spec: Spec, elements: HostBytes) -> Value {
        let layout = Layout::dense(spec.shape.clone());
        let bytes = spec.bytes();
        Value::stored(spec, layout, bytes, Some(elements), Copies::default())
    }

    /// A value in a storage of `bytes`.
    #[inline]
    pub fn stored(spec: Spec, layout: Layout, bytes: u64, host: Option<HostBytes>, copies: Copies) -> Value {
        let may_be_resident = AtomicBool::new(!copies.resident.is_empty());
        let (copies, read) = (Mutex::new(copies), OnceLock::new());
        Value { spec, layout, bytes, host, read, may_be_resident, copies, limits: None }
    }

    /// Whether it remembers what it was computed from.
    pub fn can_be_computed_again(&self) -> bool {
        self.host().is_none() && self.copies().recipe.is_some()
    }

    /// What it was computed from, where it remembers that.
    pub fn into_recipe(self) -> Option<Inputs> {
        let copies = self.copies.into_inner().unwrap_or_else(PoisonError::into_inner);
        copies.recipe.map(|recipe| recipe.inputs)
    }

    /// The host's copy.
    pub fn host(&self) -> Option<&HostBytes> {
        self.host.as_ref().or_else(|| self.read.get())
    }

    /// The same bytes as a value of their own, which remembers what it is held against.
    pub fn stand_in(&self) -> Value {
        let (spec, layout, host) = (self.spec.clone(), self.layout.clone(), self.host().cloned());
        let value = Value::stored(spec, layout, self.bytes, host, self.copies().clone());
        Value { limits: Some(Mutex::default()), ..value }
    }

    /// It is held against this limit.
    pub fn note(&self, limit: Limit) {
        let Some(limits) = &self.limits else { return };
        let mut limits = limits.lock().unwrap_or_else(PoisonError::into_inner);
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }

    /// What it was held against.
    pub fn limits(&self) -> Vec<Limit> {
        let limits = self.limits.as_ref().map(|limits| limits.lock().unwrap_or_else(PoisonError::into_inner).clone());
        limits.unwrap_or_default()
    }

    /// Whether it can be read without computing anything; copies that were lost are forgotten.
    pub fn is_there(&self, devices: &Snapshot) -> bool {
        let copies = &mut *self.copies();
        let Copies { resident, lost_with, .. } = copies;
        resident.retain(|(id, buffer)| {
            let is_lost = devices.has_lost(*id, buffer);
            if is_lost {
                *lost_with = Some(*id);
            }
            !is_lost
        });
        self.host().is_some() || resident.iter().any(|(id, buffer)| devices.has(*id, buffer))
    }

    /// That it is neither there nor to be computed again.
    pub fn gone(&self, devices: &Snapshot) -> Error {
        let copies = self.copies();
        let device = copies.resident.first().map(|(id, _)| *id).or(copies.lost_with);
        let device = device.map_or("a device".to_owned(), |id| devices.entry(id).name.clone());
        let made_by = copies.made_by.map_or(String::new(), |made_by| format!("result of {made_by}, "));
        Error::DeviceLost { device, tensor: format!("the {made_by}{}", self.spec) }
    }

    /// Its bytes on the host, if its elements lie in the order and in the places that `source` says.
    pub fn host_as(&self, source: &Source) -> Option<&HostBytes> {
        let host = self.host()?;
        let (&Place::Host, devices) = source.places.split_first()? else { return None };
        let is_there = if self.may_be_resident.load(Ordering::Acquire) {
            let copies = self.copies();
            copies.resident.iter().map(|(device, _)| Place::Device(*device)).eq(devices.iter().copied())
        } else {
            devices.is_empty()
        };
        (is_there && self.layout == source.layout).then_some(host)
    }

    pub fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more copy, on a device, in place of one that was lost there.
    pub fn add_resident(&self, device: DeviceId, buffer: Buffer, devices: &Snapshot) {
        let mut copies = self.copies();
        copies.resident.retain(|(id, buffer)| *id != device || devices.has(*id, buffer));
        if copies.resident.iter().all(|(d, _)| *d != device) {
            self.may_be_resident.store(true, Ordering::Release);
            copies.resident.push((device, buffer));
        }
    }

    /// A host copy, now that there is one: what it was computed from is no longer needed.
    pub fn add_host(&self, bytes: HostBytes) -> Option<Box<Recipe>> {
        self.read.get_or_init(|| bytes);
        self.copies().recipe.take()
    }

    /// Elements in row-major order of the view, from bytes of the whole storage.
    pub fn elements<T: Element>(&self, bytes: &[u8], copy: impl FnOnce(&[u8], &mut [u8])) -> Vec<T> {
        let mut all = vec![T::default(); self.spec.shape.elements()];
        self.elements_into(bytes, &mut all, copy);
        all
    }

    /// Elements in row-major order of the view, of which there are as many as `out` has room for; `copy` is for many of them.
    pub fn elements_into<T: Element>(&self, bytes: &[u8], out: &mut [T], copy: impl FnOnce(&[u8], &mut [u8])) {
        let (width, first) = (size_of::<T>(), self.layout.offset);
        if !self.layout.is_contiguous() {
            for (to, at) in out.iter_mut().zip(self.layout.positions()) {
                *to = read_element(&bytes[at * width..][..width]);
            }
        } else if let Some(to) = T::bytes_mut(out) {
            copy(&bytes[first * width..][..to.len()], to);
        } else {
            for (to, from) in out.iter_mut().zip(bytes[first * width..].chunks_exact(width)) {
                *to = read_element(from);
            }
        }
    }

    /// Elements in row-major order of the view as bytes, from bytes of the whole storage.
    pub fn dense_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let width = self.spec.dtype.bytes();
        match self.dense_range() {
            Some(range) => bytes[range].to_vec(),
            None => self.layout.positions().flat_map(|at| &bytes[at * width..][..width]).copied().collect(),
        }
    }

    /// The same in the memory where they lie, unless they have to be brought together first.
    pub fn dense_host(&self, bytes: &HostBytes) -> HostBytes {
        let gathered = || HostBytes::from_vec(self.dense_bytes(bytes)).aligned(self.spec.dtype.bytes());
        self.dense_range().map_or_else(gathered, |range| bytes.slice(range))
    }

    /// Where its elements lie among the bytes of the storage, if they do so in order and without gaps.
    fn dense_range(&self) -> Option<std::ops::Range<usize>> {
        let width = self.spec.dtype.bytes();
        let start = self.layout.offset * width;
        self.layout.is_contiguous().then(|| start..start + self.spec.shape.elements() * width)
    }
}

fn read_element<T: Element>(bytes: &[u8]) -> T {
    bytemuck::checked::pod_read_unaligned(bytes)
}

/// Bytes of a buffer on the host: in place where the device allows it, else copied.
pub(crate) fn fetch(
    device: &Arc<dyn Device>,
    buffer: &Buffer,
    bytes: u64,
    deadline: Deadline,
) -> Result<HostBytes, DeviceError> {
    if let Some(bytes) = device.export(buffer) {
        return Ok(bytes);
    }
    let step = SegmentStep::Download { slot: 0, bytes, read: 0 };
    let work = device.prepare(&Segment { steps: vec![step] })?;
    let cell = ReadCell::new();
    let binding = Binding { buffers: vec![buffer.clone()], reads: vec![cell.clone()], ..Binding::default() };
    let ticket = loop {
        match device.submit(&work, binding.clone(), Lane::Compute, &[]) {
            // Others have filled it with work, which ends without us.
            Err(DeviceError::Busy) if !deadline.has_passed() => std::thread::sleep(Duration::from_micros(50)),
            submitted => break submitted?,
        }
    };
    device.wait(ticket, deadline)?;
    let early = || DeviceError::Driver("said it was done before the bytes it reads had arrived".to_owned());
    cell.take().ok_or_else(early)
}
