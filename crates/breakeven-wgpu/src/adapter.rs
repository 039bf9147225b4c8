//! What an adapter is and what it can do.

use breakeven_device::{DeviceInfo, DeviceKind};
use breakeven_ir::{Caps, DType};

use crate::backend::{Limits, WgpuOptions};
use crate::kernels::Shaping;

/// Who it is, and why it cannot be used, when it cannot.
pub(crate) fn info(adapter: &wgpu::Adapter, limits: Limits) -> DeviceInfo {
    let info = adapter.get_info();
    DeviceInfo {
        name: info.name.clone(),
        kind: kind(info.device_type),
        backend: format!("wgpu/{}", backend(info.backend)),
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        address: Some(info.device_pci_bus_id).filter(|a| !a.is_empty()),
        unusable: lacks(
            adapter.get_downlevel_capabilities().flags,
            &wanted(adapter.limits(), limits),
            &adapter.limits(),
        ),
    }
}

fn kind(kind: wgpu::DeviceType) -> DeviceKind {
    match kind {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        wgpu::DeviceType::VirtualGpu | wgpu::DeviceType::Other => DeviceKind::Other,
    }
}

fn backend(backend: wgpu::Backend) -> &'static str {
    match backend {
        wgpu::Backend::Vulkan => "vulkan",
        wgpu::Backend::Metal => "metal",
        wgpu::Backend::Dx12 => "dx12",
        wgpu::Backend::Gl => "gl",
        wgpu::Backend::BrowserWebGpu => "webgpu",
        wgpu::Backend::Noop => "noop",
    }
}

/// Why an adapter cannot be used that has these flags and limits, of which `wanted` are asked for.
fn lacks(flags: wgpu::DownlevelFlags, wanted: &wgpu::Limits, has: &wgpu::Limits) -> Option<String> {
    if !flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return Some("it cannot run compute shaders".to_owned());
    }
    let mut lacking = None;
    let mut note = |name: &'static str, wanted: u64, has: u64| {
        lacking.get_or_insert_with(|| format!("it allows {name} of {has} only, and {wanted} is asked for"));
    };
    wanted.check_limits_with_fail_fn(has, true, &mut note);
    let short = |name: &str, has: u32, least: u32| (has < least).then(|| format!("it allows {name} of {has} only"));
    lacking
        .or_else(|| short("workgroups", wanted.max_compute_invocations_per_workgroup, crate::wgsl::GROUP))
        .or_else(|| short("workgroup memory", wanted.max_compute_workgroup_storage_size, 16 << 10))
        .or_else(|| short("storage buffers per stage", wanted.max_storage_buffers_per_shader_stage, 4))
}

/// The limits to ask for, of an adapter that has these.
pub(crate) fn wanted(has: wgpu::Limits, limits: Limits) -> wgpu::Limits {
    match limits {
        Limits::Adapter => has,
        Limits::WebGpuDefault => wgpu::Limits::defaults(),
    }
}

/// The features to ask for.
pub(crate) fn features(adapter: &wgpu::Adapter, options: &WgpuOptions) -> wgpu::Features {
    let marks = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
    let marks = if options.timestamps { marks } else { wgpu::Features::empty() };
    let kept = if options.kept.is_some() { wgpu::Features::PIPELINE_CACHE } else { wgpu::Features::empty() };
    let cores = if has_cores(adapter) { CORES } else { wgpu::Features::empty() };
    let shared = crate::shared::feature(adapter, options);
    ((marks | kept | shared) & adapter.features()) | cores
}

/// What products by cooperative matrices need.
pub(crate) const CORES: wgpu::Features =
    wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SHADER_F16).union(wgpu::Features::SUBGROUP);

/// Workgroup memory that such a product passes its operands through, in bytes.
pub(crate) const CORES_MEMORY: u32 = 48 << 10;

/// True where matrices of f16, 16 by 16, are multiplied by subgroups of which a workgroup has 8, and summed in f32.
fn has_cores(adapter: &wgpu::Adapter) -> bool {
    use wgpu::CooperativeScalarType::{F16, F32};
    let info = adapter.get_info();
    let subgroups = [info.subgroup_min_size, info.subgroup_max_size];
    adapter.features().contains(CORES)
        && subgroups.iter().all(|size| 8 * size == crate::wgsl::GROUP)
        && adapter.limits().max_compute_workgroup_storage_size >= CORES_MEMORY
        && adapter
            .cooperative_matrix_properties()
            .iter()
            .any(|p| [p.m_size, p.n_size, p.k_size] == [16; 3] && p.ab_type == F16 && p.cr_type == F32)
}

/// Element indices are 32 bits wide; the slack keeps the last, partly filled groups of a grid from wrapping.
const MAX_INDEX: u64 = u32::MAX as u64 - (1 << 20);

/// What lowering may count on, from the limits that were granted.
pub(crate) fn caps(limits: &wgpu::Limits) -> Caps {
    Caps {
        max_buffer_bytes: limits.max_buffer_size / 16 * 16,
        max_binding_bytes: limits.max_storage_buffer_binding_size / 16 * 16 - 512,
        max_bindings: limits.max_storage_buffers_per_shader_stage as usize,
        max_index: MAX_INDEX,
        dtypes: DType::ALL.into_iter().filter(|&d| d != DType::F64).collect(),
        moved: vec![DType::F64],
        host_memory: false,
        memory_bytes: None,
    }
}

/// The limits as kernels see them. What is bound is rounded to alignments, for which `caps` left room.
pub(crate) fn shaping(limits: &wgpu::Limits, features: wgpu::Features, is_terse: bool) -> Shaping {
    Shaping {
        bindings: limits.max_storage_buffers_per_shader_stage as usize,
        binding_bytes: limits.max_storage_buffer_binding_size / 16 * 16,
        max_index: MAX_INDEX,
        args_bytes: limits.max_uniform_buffer_binding_size,
        row_groups: limits.max_compute_workgroups_per_dimension.into(),
        is_terse,
        is_cooperative: features.contains(CORES) && limits.max_compute_workgroup_storage_size >= CORES_MEMORY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_that_lacks_something_says_what() {
        let all = wgpu::DownlevelFlags::all();
        let ample = wgpu::Limits::defaults();
        assert_eq!(lacks(all, &ample, &ample), None);
        let check = |flags, wanted: &wgpu::Limits, has: &wgpu::Limits, words: &str| {
            let why = lacks(flags, wanted, has).unwrap_or_default();
            assert!(why.contains(words), "{words}: {why}");
        };
        // As drivers of OpenGL before 4.3 and of OpenGL ES before 3.1 are found.
        check(all - wgpu::DownlevelFlags::COMPUTE_SHADERS, &ample, &ample, "compute shaders");
        let narrow = wgpu::Limits { max_storage_buffers_per_shader_stage: 3, ..ample.clone() };
        check(all, &ample, &narrow, "max_storage_buffers_per_shader_stage of 3 only, and 8 is asked for");
        check(all, &narrow, &narrow, "storage buffers per stage of 3 only");
        let few = wgpu::Limits { max_compute_invocations_per_workgroup: 128, ..ample.clone() };
        check(all, &few, &few, "workgroups of 128 only");
        let little = wgpu::Limits { max_compute_workgroup_storage_size: 8 << 10, ..ample.clone() };
        check(all, &little, &little, "workgroup memory of 8192 only");
    }
}
