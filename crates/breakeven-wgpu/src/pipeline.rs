//! Pipelines, compiled once for each text.

use std::any::Any;
use std::sync::{Arc, Mutex};

use breakeven_device::{DeviceError, Result};
use breakeven_ir::Unsupported;

use crate::counters::count;
use crate::errors::lock;
use crate::kept::DriverCache;
use crate::kernels::Dispatch;
use crate::memory::Gpu;
use crate::texts::{Most, Texts};
use crate::wgsl::is_foreign;
use crate::{Counters, WgpuOptions};

/// A compiled text and the layout of what it binds.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub compute: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

/// Pipelines by text, of which those are let go that nobody asked for the longest and no prepared segment holds.
#[derive(Debug)]
pub(crate) struct Pipelines {
    made: Mutex<Texts<Arc<Pipeline>>>,
    /// Of texts with code of the user's.
    verdicts: Mutex<Texts<Verdict>>,
}

/// Whether a text of the user's compiles.
type Verdict = std::result::Result<(), Unsupported>;

impl Pipelines {
    /// As many as the options say.
    pub fn new(options: &WgpuOptions) -> Pipelines {
        let most = Most { texts: options.pipelines, bytes: options.pipeline_text_bytes };
        Pipelines { made: Mutex::new(Texts::new(most)), verdicts: Mutex::new(Texts::new(most)) }
    }

    /// Counts those that are kept and that were let go.
    pub fn count(&self, counters: Counters) -> Counters {
        let made = lock(&self.made);
        Counters {
            pipelines_kept: made.count(),
            pipelines_let_go: made.let_go(),
            pipeline_text_bytes: made.bytes(),
            ..counters
        }
    }

    /// Whether the pipeline of a dispatch was compiled.
    pub fn has(&self, dispatch: &Dispatch) -> bool {
        lock(&self.made).get(&dispatch.text).is_some()
    }

    /// The pipeline of a dispatch; compiled at the first call, which is slow.
    pub fn get(&self, gpu: &Gpu, dispatch: &Dispatch) -> Result<Arc<Pipeline>> {
        if let Some(known) = lock(&self.made).get(&dispatch.text) {
            return Ok(known);
        }
        let compile = || DriverCache::make(gpu.cache.as_deref(), |cache| compile(gpu, dispatch, cache));
        let made = Arc::new(gpu.guarded(compile)?);
        count(&gpu.counts.pipelines);
        let is_held = |pipeline: &Arc<Pipeline>| Arc::strong_count(pipeline) > 1;
        let gone = lock(&self.made).keep(&dispatch.text, made.clone(), is_held);
        // Drivers may take their time over it.
        drop(gone);
        Ok(made)
    }

    /// Why a dispatch with code of the user's cannot be compiled, where it cannot; each text is looked at once.
    pub fn check(&self, dispatch: &Dispatch) -> Verdict {
        if !is_foreign(&dispatch.text) {
            return Ok(());
        }
        if let Some(known) = lock(&self.verdicts).get(&dispatch.text) {
            return known;
        }
        let verdict = crate::wgsl::compile(&dispatch.text);
        lock(&self.verdicts).keep(&dispatch.text, verdict.clone(), |_| false);
        verdict
    }
}

/// Whether anybody still wants what is compiled.
pub(crate) type Wanted<'a> = &'a (dyn Fn() -> bool + Sync);

/// Compilers that run side by side.
const COMPILERS: usize = 8;

impl Pipelines {
    /// Compiles what is not known of `dispatches`, side by side and for as long as that is wanted: a driver takes up to 200 ms for one.
    /// Whoever asks for these then holds what this gives meanwhile, so that they do not go for each other. Where all calls stand in line,
    /// those that wait would be given up on, with the device, and so nothing is compiled here.
    pub fn warm(&self, gpu: &Gpu, dispatches: &[&Dispatch], is_wanted: Wanted<'_>) -> Result<Vec<Arc<Pipeline>>> {
        let (mut held, mut missing): (Vec<Arc<Pipeline>>, Vec<&Dispatch>) = (Vec::new(), Vec::new());
        for dispatch in dispatches {
            if missing.iter().any(|m| m.text == dispatch.text) {
                continue;
            }
            match lock(&self.made).get(&dispatch.text) {
                Some(known) => held.push(known),
                None => missing.push(dispatch),
            }
        }
        let get =
            |dispatch: &&Dispatch| if is_wanted() { self.get(gpu, dispatch) } else { Err(DeviceError::Cancelled) };
        if missing.len() < 2 || gpu.has_one_context {
            return Ok(held);
        }
        let part = missing.len().div_ceil(COMPILERS);
        std::thread::scope(|scope| {
            let compile = |part: &[&Dispatch]| part.iter().map(get).collect::<Result<Vec<_>>>();
            let workers: Vec<_> = missing.chunks(part).map(|part| scope.spawn(move || compile(part))).collect();
            for worker in workers {
                let panicked =
                    |panic: Box<dyn Any + Send>| DeviceError::Driver(crate::errors::panic_text(panic.as_ref()));
                held.extend(worker.join().map_err(panicked)??);
            }
            Ok(held)
        })
    }
}

fn compile(gpu: &Gpu, dispatch: &Dispatch, cache: Option<&wgpu::PipelineCache>) -> Pipeline {
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
        cache,
    });
    Pipeline { compute, layout }
}

fn module(gpu: &Gpu, text: &str) -> wgpu::ShaderModule {
    let source = wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(text.into()) };
    if gpu.options.checked || is_foreign(text) {
        return gpu.device.create_shader_module(source);
    }
    let checks = wgpu::ShaderRuntimeChecks {
        bounds_checks: false,
        force_loop_bounding: false,
        int_div_checks: false,
        ..wgpu::ShaderRuntimeChecks::checked()
    };
    // SAFETY: the text comes from `kernels` alone, without code of the user's. Each index into a buffer is the position of an element of an operand's
    // layout, all of which lie in the bound part; gathered indices are compared with their extent first. Each loop has
    // a bound that does not change inside it. A dispatch has as many rows of groups as members, and groups past
    // the last one, which a folded grid may have, store nothing. Extents are not 0, and
    // division by a value goes through `i32_div` and its relatives, which test for 0 and -1.
    unsafe { gpu.device.create_shader_module_trusted(source, checks) }
}
