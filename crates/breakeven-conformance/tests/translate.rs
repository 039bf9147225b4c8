//! Every text that the suite's kernels become on a GPU can be said in the languages of Direct3D 12, Metal and OpenGL ES.

mod devices;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use breakeven_conformance::Tier;
use breakeven_device::sim::SimDevice;
use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, DeviceInfo, Lane, Memory, MemoryKind, Prepared, Segment,
    SegmentStep, Status, Ticket, Timing,
};
use breakeven_ir::{
    Caps, Custom, CustomOp, DType, Expr, Kernel, Launch, Layout, Map, Operand, Row, Shape, Unsupported, Wgsl,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};
use naga::back::{glsl, hlsl, msl};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{Module, ShaderStage};

/// Computes on the simulated device what a GPU can run, once its text was translated.
struct Translating {
    gpu: WgpuDevice,
    /// The same at its own limits, with text as processors that act as GPUs get it.
    wide: WgpuDevice,
    sim: Box<SimDevice>,
    said: Mutex<HashSet<String>>,
}

/// A software adapter at the limits of WebGPU, which every driver elsewhere keeps, with text as GPUs get it.
fn translating() -> Box<Translating> {
    let [gpu, wide] = [(Limits::WebGpuDefault, false), (Limits::Adapter, true)].map(|(limits, terse)| {
        let backend = WgpuBackend::new(WgpuOptions { limits, terse: Some(terse), ..WgpuOptions::default() });
        let found = backend.software_adapters();
        let index = *found.first().expect("no software Vulkan adapter: `cargo xtask test` installs one");
        backend.open_device(index).expect("it opens")
    });
    Box::new(Translating { gpu, wide, sim: devices::sim(), said: Mutex::default() })
}

impl Translating {
    /// Each text that a segment becomes; how many there are at the narrow limits.
    fn translate(&self, segment: &Segment) -> usize {
        let [texts, wide] = [&self.gpu, &self.wide].map(|gpu| gpu.texts_of(segment).expect("it is supported"));
        for text in texts.iter().chain(&wide) {
            let is_new = self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
            let said = if is_new { in_all_languages(text) } else { Ok(()) };
            said.unwrap_or_else(|(language, why)| panic!("{language}: {why}\n{segment:?}\n{text}"));
        }
        texts.len()
    }
}

type Said = Result<(), (&'static str, String)>;

fn in_all_languages(text: &str) -> Said {
    let module = naga::front::wgsl::parse_str(text).map_err(|e| ("WGSL", e.emit_to_string(text)))?;
    // Nothing that only some adapters have.
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    let info = validator.validate(&module).map_err(|e| ("WGSL", format!("{e:?}")))?;
    in_hlsl(&module, &info).map_err(|why| ("HLSL", why))?;
    in_msl(&module, &info).map_err(|why| ("MSL", why))?;
    in_glsl(&module, &info).map_err(|why| ("GLSL ES 3.1", why))
}

fn in_hlsl(module: &Module, info: &ModuleInfo) -> Result<(), String> {
    let (options, pipeline) = (hlsl::Options::default(), hlsl::PipelineOptions { entry_point: None });
    let mut out = String::new();
    let said = hlsl::Writer::new(&mut out, &options, &pipeline).write(module, info, None);
    let said = said.map_err(|e| e.to_string())?;
    said.entry_point_names.into_iter().try_for_each(|name| name.map(drop)).map_err(|e| e.to_string())
}

fn in_msl(module: &Module, info: &ModuleInfo) -> Result<(), String> {
    let options = msl::Options { lang_version: (2, 0), ..msl::Options::default() };
    let said = msl::write_string(module, info, &options, &msl::PipelineOptions::default());
    let (_, said) = said.map_err(|e| e.to_string())?;
    said.entry_point_names.into_iter().try_for_each(|name| name.map(drop)).map_err(|e| e.to_string())
}

fn in_glsl(module: &Module, info: &ModuleInfo) -> Result<(), String> {
    let options = glsl::Options { version: glsl::Version::new_gles(310), ..glsl::Options::default() };
    let name = module.entry_points[0].name.clone();
    let pipeline = glsl::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: name, multiview: None };
    let mut out = String::new();
    let policies = naga::proc::BoundsCheckPolicies::default();
    let writer = glsl::Writer::new(&mut out, module, info, &options, &pipeline, policies);
    writer.and_then(|mut writer| writer.write()).map(drop).map_err(|e| e.to_string())
}

impl Device for Translating {
    fn info(&self) -> &DeviceInfo {
        self.sim.info()
    }

    fn caps(&self) -> &Caps {
        self.gpu.caps()
    }

    fn supports(&self, kernel: &Kernel) -> Result<(), Unsupported> {
        self.gpu.supports(kernel)
    }

    fn alloc(&self, bytes: u64, kind: MemoryKind) -> Result<Buffer, DeviceError> {
        self.sim.alloc(bytes, kind)
    }

    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>, DeviceError> {
        self.translate(segment);
        self.sim.prepare(segment)
    }

    fn submit(
        &self,
        work: &Arc<dyn Prepared>,
        binding: Binding,
        lane: Lane,
        after: &[Ticket],
    ) -> Result<Ticket, DeviceError> {
        self.sim.submit(work, binding, lane, after)
    }

    fn poll(&self, ticket: Ticket) -> Status {
        self.sim.poll(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing, DeviceError> {
        self.sim.wait(ticket, deadline)
    }

    fn memory(&self) -> Memory {
        self.sim.memory()
    }

    fn trim(&self, age: Duration) {
        self.sim.trim(age);
    }

    fn now(&self) -> Duration {
        self.sim.now()
    }
}

impl fmt::Debug for Translating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Translating({:?})", self.gpu)
    }
}

// The suite's areas; its cases are kernels of the same kinds.
breakeven_conformance::suite! { @each cfg(test); translating(), Tier::Quick;
maps 3000, specials 100, values 60, casts 20, copies 100, fused 60, reductions 500, row_wise 200, scans 300, matmuls 100,
byte_matmuls 200, lower_matmuls 200, convs 300, sorts 200, scatters 200, gathers 60, attentions 60, random_graphs 300 }

/// `count` launches of `kernel` by its inputs' slots, each with outputs of its own.
fn each(kernel: &Kernel, count: usize) -> Segment {
    let (inputs, outputs) = (kernel.inputs().len(), kernel.outputs().len());
    let launch = |nth: usize| {
        let outputs = (0..outputs).map(|out| inputs + nth * outputs + out).collect();
        let launch = Launch { kernel: kernel.clone(), inputs: (0..inputs).collect(), outputs, workspace: None };
        SegmentStep::Launch(Box::new(launch))
    };
    Segment { steps: (0..count).map(launch).collect() }
}

#[test]
fn maps_that_share_a_dispatch_can_be_said_too() {
    let device = translating();
    for name in ["relu", "gelu", "add"] {
        let expr = Expr::row(Row::named(name).unwrap(), DType::F32);
        for elements in [3, 256] {
            let kernel = Kernel::Map(Map::dense(expr.clone(), vec![], elements));
            for count in 1..=device.caps().max_bindings {
                let dispatches = device.translate(&each(&kernel, count));
                assert!(dispatches < count.max(2), "{name}: {dispatches} dispatches of {count}");
            }
        }
    }
}

#[test]
fn operations_from_outside_can_be_said_too() {
    let device = translating();
    let text = "let main = before(i);\nreturn load0(i) + param0() * main;";
    let before = "fn before(i: u32) -> f32 { return select(0.0, load0(i - 1u), i > 0u); }";
    let op = CustomOp::new("echo", |specs| Ok(vec![specs[0].clone()])).params([DType::F32]);
    let op = op.wgsl(Wgsl::for_each_element(text).with_functions(before));
    let shape = Shape::from([7, 11]);
    for (name, layout) in breakeven_conformance::views(shape.clone()) {
        let inputs = vec![Operand::new(DType::F32, layout)];
        let outs = vec![Operand::new(DType::F32, Layout::dense(shape.clone()))];
        let kernel = Kernel::Custom(Custom { op: op.clone(), params: vec![2.0], inputs, outs });
        assert!(device.translate(&each(&kernel, 1)) > 0, "{name}");
    }
}

/// A check that cannot fail is none.
#[test]
fn what_cannot_be_said_is_found() {
    let wide = "@group(0) @binding(0) var<storage, read_write> x: array<i64>;\n\
                @compute @workgroup_size(1) fn main() { x[0] = x[1]; }";
    let (language, _) = in_all_languages(wide).unwrap_err();
    assert_eq!(language, "WGSL", "not every adapter has 64 bits");
    let plain = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n\
                 @compute @workgroup_size(1) fn main() { x[0] = x[1]; }";
    assert_eq!(in_all_languages(plain), Ok(()));
}
