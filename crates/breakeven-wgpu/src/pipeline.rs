//! Pipelines, compiled once for each text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use breakeven_device::Result;

use crate::counters::count;
use crate::errors::lock;
use crate::kernels::Dispatch;
use crate::memory::Gpu;

/// A compiled text and the layout of what it binds.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub compute: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// Pipelines by text. Two texts are never taken for one: the whole text is the key.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Mutex<HashMap<String, Arc<Pipeline>>>);

impl Pipelines {
    /// The pipeline of a dispatch; compiled at the first call, which is slow.
    pub fn get(&self, gpu: &Gpu, dispatch: &Dispatch) -> Result<Arc<Pipeline>> {
        if let Some(known) = lock(&self.0).get(&dispatch.text) {
            return Ok(known.clone());
        }
        let made = Arc::new(gpu.guarded(|| compile(gpu, dispatch))?);
        count(&gpu.counts.pipelines);
        lock(&self.0).insert(dispatch.text.clone(), made.clone());
        Ok(made)
    }
}

fn compile(gpu: &Gpu, dispatch: &Dispatch) -> Pipeline {
    let storage = |b: &crate::wgsl::Bound| wgpu::BufferBindingType::Storage { read_only: !b.write };
    let kinds = [wgpu::BufferBindingType::Uniform].into_iter().chain(dispatch.bound.iter().map(storage));
    let entry = |(binding, ty)| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    };
    let entries: Vec<_> = (0u32..).zip(kinds).map(entry).collect();
    let device = &gpu.device;
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let compute = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&pipeline_layout),
        module: &module(gpu, &dispatch.text),
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    });
    Pipeline { compute, layout }
}

fn module(gpu: &Gpu, text: &str) -> wgpu::ShaderModule {
    let source = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) };
    if gpu.options.checked {
        return gpu.device.create_shader_module(source);
    }
    let checks = wgpu::ShaderRuntimeChecks {
        bounds_checks: false,
        force_loop_bounding: false,
        int_div_checks: false,
        ..wgpu::ShaderRuntimeChecks::checked()
    };
    // SAFETY: texts come from `kernels` alone. Each index into a buffer is the position of an element of an operand's
    // layout, all of which lie in the bound part; gathered indices are compared with their extent first. Each loop has
    // a bound that does not change inside it. Extents are not 0, and division by a value goes through `i32_div` and its
    // relatives, which test for 0 and -1.
    unsafe { gpu.device.create_shader_module_trusted(source, checks) }
}
