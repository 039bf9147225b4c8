//! Whether a device's own memory is the host's too, so that bytes need no copy to get there.

use crate::backend::WgpuOptions;

/// What makes wgpu map any buffer, where the adapter has it and mapping is a gain or was asked for. Never for a card: the host would
/// reach across the bus for every byte.
pub(crate) fn feature(adapter: &wgpu::Adapter, options: &WgpuOptions) -> wgpu::Features {
    let kind = adapter.get_info().device_type;
    let shares = matches!(kind, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu);
    if shares && options.in_place.unwrap_or_else(|| maps_for_nothing(adapter)) {
        wgpu::Features::MAPPABLE_PRIMARY_BUFFERS
    } else {
        wgpu::Features::empty()
    }
}

/// Kinds of memory of a Vulkan driver, as bits.
const DEVICE_LOCAL: u32 = 1;
const MAPPED: u32 = DEVICE_LOCAL | 2 | 4;
const CACHED: u32 = 8;

/// True where buffers that can be mapped lie in the same memory as others, and the host reads it through its caches. wgpu takes the
/// first kind of memory that has what it wants: for a buffer that is both written and read in place one that is good to write, which
/// the host may read at a hundredth of its speed.
fn is_free(kinds: &[u32]) -> bool {
    let first = |wanted: u32| kinds.iter().position(|kind| kind & wanted == wanted);
    first(MAPPED).is_some_and(|at| kinds[at] & CACHED != 0 && first(DEVICE_LOCAL) == Some(at))
}

fn maps_for_nothing(adapter: &wgpu::Adapter) -> bool {
    is_free(&kinds_of_memory(adapter))
}

/// Those of an adapter that is reached through Vulkan.
#[cfg(all(feature = "vulkan", any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn kinds_of_memory(adapter: &wgpu::Adapter) -> Vec<u32> {
    // SAFETY: the handle is used within this function and destroyed by nobody here.
    let Some(vulkan) = (unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }) else { return Vec::new() };
    let (instance, device) = (vulkan.shared_instance().raw_instance(), vulkan.raw_physical_device());
    // SAFETY: the device is one of that instance, and both are there for as long as the adapter is.
    let memory = unsafe { instance.get_physical_device_memory_properties(device) };
    memory.memory_types_as_slice().iter().map(|kind| kind.property_flags.as_raw()).collect()
}

/// Metal and DirectX keep what is written in place out of the host's caches.
#[cfg(not(all(feature = "vulkan", any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))))]
fn kinds_of_memory(_: &wgpu::Adapter) -> Vec<u32> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_mapped_where_that_changes_nothing_for_the_device_and_the_host_caches_it() {
        let check = |kinds: &[u32], want: bool| assert_eq!(is_free(kinds), want, "{kinds:?}");
        // Software drivers, and integrated GPUs that share the processor's last cache.
        check(&[0b1111], true);
        // Integrated GPUs whose first mapped kind the host does not cache.
        check(&[0b0111, 0b1111], false);
        // Memory of the device that the host does not see comes first.
        check(&[0b0001, 0b1111], false);
        check(&[0b0001, 0b0110, 0b1110], false);
        check(&[], false);
    }
}
