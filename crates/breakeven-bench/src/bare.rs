//! The least that an operation on a GPU can cost through wgpu, to compare with: one buffer written, one dispatch, one buffer
//! read, with everything made beforehand and nothing decided.

use std::time::{Duration, Instant};

use breakeven::DeviceReport;
use wgpu::BufferUsages as Use;

const RELU: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&x) { y[id.x] = max(x[id.x], 0.0); }
}";

/// Relu of so many numbers, ready to be called.
pub struct Bare {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    read: wgpu::Buffer,
}

impl Bare {
    /// On the adapter of `report`; `None` where wgpu does not list it.
    pub fn new(report: &DeviceReport, elements: usize) -> Option<Bare> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        let is_it = |a: &wgpu::Adapter| a.get_info().name == report.info.name;
        let adapter = adapters.into_iter().find(is_it)?;
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).ok()?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(RELU.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let buffer = |usage| {
            let size = 4 * elements as u64;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
        };
        let (x, y) = (buffer(Use::STORAGE | Use::COPY_DST), buffer(Use::STORAGE | Use::COPY_SRC));
        let read = buffer(Use::MAP_READ | Use::COPY_DST);
        let entries =
            [(0, &x), (1, &y)].map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() });
        let layout = &pipeline.get_bind_group_layout(0);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });
        Some(Bare { device, queue, pipeline, group, x, y, read })
    }

    /// Relu of `from` into `to`, both of as many elements as it was made for.
    pub fn relu(&self, from: &[f32], to: &mut [f32]) {
        let bytes = 4 * from.len() as u64;
        self.queue.write_buffer(&self.x, 0, bytemuck::cast_slice(from));
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            pass.dispatch_workgroups((from.len() as u32).div_ceil(256), 1, 1);
        }
        encoder.copy_buffer_to_buffer(&self.y, 0, &self.read, 0, bytes);
        self.queue.submit([encoder.finish()]);
        let (send, ready) = std::sync::mpsc::channel();
        self.read.slice(..).map_async(wgpu::MapMode::Read, move |result| send.send(result.is_ok()).unwrap_or(()));
        // Asking again and again is the fastest way to wait.
        let begun = Instant::now();
        let is_mapped = loop {
            assert!(begun.elapsed() < Duration::from_secs(10), "the device does not answer");
            self.device.poll(wgpu::PollType::Poll).expect("the device is there");
            match ready.try_recv() {
                Err(std::sync::mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
                answer => break answer.unwrap_or(false),
            }
        };
        assert!(is_mapped, "what was read cannot be seen");
        let view = self.read.slice(..).get_mapped_range().expect("it is mapped");
        bytemuck::cast_slice_mut(to).copy_from_slice(&view);
        drop(view);
        self.read.unmap();
    }
}
