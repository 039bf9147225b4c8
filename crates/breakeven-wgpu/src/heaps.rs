//! The heaps of a card's memory, as Vulkan tells of them. Other interfaces tell nothing.

use breakeven_device::DeviceKind;

/// One heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    pub bytes: u64,
    /// It is the device's own memory.
    pub is_local: bool,
    /// What this process may have of it, where the driver tells.
    pub share: Option<Share>,
}

/// What one process may have of a heap, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes that it may have in all. Other processes make it less.
    pub budget: u64,
    /// Bytes that it has, what the driver holds for itself included.
    pub used: u64,
}

/// The heap whose size bounds what buffers may have. A small part of the host's memory that is set apart for a GPU does not: its driver takes
/// more of the rest.
pub(crate) fn bounding_heap(heaps: &[Heap], kind: DeviceKind) -> Option<Heap> {
    let is_largest = |heap: &Heap| heaps.iter().all(|other| other.bytes <= heap.bytes);
    main_heap(heaps).filter(|heap| kind == DeviceKind::DiscreteGpu || is_largest(heap))
}

/// The heap that buffers lie in: the largest of the device's own memory, or of all, where it has none.
pub(crate) fn main_heap(heaps: &[Heap]) -> Option<Heap> {
    let heap = heaps.iter().copied().max_by_key(|heap| (heap.is_local, heap.bytes))?;
    // A driver that says 0 of a heap that we have buffers in has not said anything.
    let share = heap.share.filter(|share| share.budget > 0);
    (heap.bytes > 0).then_some(Heap { share, ..heap })
}

#[cfg(not(all(feature = "vulkan", any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))))]
pub(crate) fn heaps(_: &wgpu::Device) -> Vec<Heap> {
    Vec::new()
}

#[cfg(all(feature = "vulkan", any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) use vulkan::heaps;

#[cfg(all(feature = "vulkan", any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod vulkan {
    use ash::{Instance, ext::memory_budget, vk};

    use super::{Heap, Share};

    /// The heaps of the device's card; none where it is not reached through Vulkan.
    pub fn heaps(device: &wgpu::Device) -> Vec<Heap> {
        // SAFETY: it is asked and not changed, and kept no longer than this call.
        let Some(hal) = (unsafe { device.as_hal::<wgpu::hal::api::Vulkan>() }) else { return Vec::new() };
        let (instance, card) = (hal.shared_instance(), hal.raw_physical_device());
        let is_new = instance.instance_api_version() >= vk::API_VERSION_1_1
            && version(instance.raw_instance(), card) >= vk::API_VERSION_1_1;
        if is_new && hal.enabled_device_extensions().contains(&memory_budget::NAME) {
            with_shares(instance.raw_instance(), card)
        } else {
            // SAFETY: the card is one of this instance's, which the device keeps alive.
            let told = unsafe { instance.raw_instance().get_physical_device_memory_properties(card) };
            listed(&told, |_| None)
        }
    }

    fn version(instance: &Instance, card: vk::PhysicalDevice) -> u32 {
        // SAFETY: the card is one of this instance's, which the device keeps alive.
        unsafe { instance.get_physical_device_properties(card) }.api_version
    }

    fn with_shares(instance: &Instance, card: vk::PhysicalDevice) -> Vec<Heap> {
        let mut shares = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
        let mut told = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut shares);
        // SAFETY: the card is one of this instance's, which the device keeps alive; both are of version 1.1, which has this function; and
        // what is linked to its answer is of an extension that the device has.
        unsafe { instance.get_physical_device_memory_properties2(card, &mut told) };
        let told = told.memory_properties;
        listed(&told, |at| Some(Share { budget: shares.heap_budget[at], used: shares.heap_usage[at] }))
    }

    fn listed(told: &vk::PhysicalDeviceMemoryProperties, share: impl Fn(usize) -> Option<Share>) -> Vec<Heap> {
        let one = |(at, heap): (usize, &vk::MemoryHeap)| Heap {
            bytes: heap.size,
            is_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
            share: share(at),
        };
        told.memory_heaps_as_slice().iter().enumerate().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn heap(gib: u64, is_local: bool) -> Heap {
        Heap { bytes: gib * GIB, is_local, share: None }
    }

    #[test]
    fn buffers_lie_in_the_largest_heap_of_the_card() {
        let check = |heaps: &[Heap], want: Option<Heap>| assert_eq!(main_heap(heaps), want);
        check(&[], None);
        check(&[heap(64, false), heap(8, true)], Some(heap(8, true)));
        // A window through which the host sees a part of it.
        check(&[heap(8, true), heap(64, false), heap(1, true)], Some(heap(8, true)));
        check(&[heap(64, false)], Some(heap(64, false)));
        check(&[heap(0, true)], None);
    }

    #[test]
    fn what_is_set_apart_of_the_hosts_memory_bounds_nothing() {
        let check = |kind, heaps: &[Heap], want: Option<Heap>| assert_eq!(bounding_heap(heaps, kind), want, "{kind:?}");
        let set_apart = [heap(1, true), heap(32, false)];
        check(DeviceKind::DiscreteGpu, &set_apart, Some(heap(1, true)));
        check(DeviceKind::IntegratedGpu, &set_apart, None);
        check(DeviceKind::IntegratedGpu, &[heap(16, true), heap(16, false)], Some(heap(16, true)));
        check(DeviceKind::IntegratedGpu, &[], None);
    }

    #[test]
    fn a_budget_of_nothing_is_none() {
        let with = |budget| Heap { share: Some(Share { budget, used: 7 }), ..heap(8, true) };
        assert_eq!(main_heap(&[with(0)]), Some(heap(8, true)));
        assert_eq!(main_heap(&[with(9)]), Some(with(9)));
    }
}
