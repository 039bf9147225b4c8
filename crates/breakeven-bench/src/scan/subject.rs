//! One operation at one size, ready to be called in every mode on every device, with the result that it must have.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor, bf16, f16};
use breakeven_study::{Copied, Flag, Flags, Mode, Sample};

use super::clock::Clock;
use super::link::Link;
use super::operation::Operation;

/// An operation at a size.
pub struct Subject<'a> {
    engine: &'a Engine,
    operation: &'static Operation,
    /// Operands as bytes of the host, uploaded anew where that is asked for.
    given: Vec<(HostBytes, Spec)>,
    /// The same operands as tensors that stay where they were used.
    kept: Vec<Tensor>,
    out: Room,
    /// The ways to devices whose copies were measured.
    links: BTreeMap<DeviceId, Link>,
    deadline: Duration,
}

/// How a trace names what the host did to get the memory of a submission.
const BINDING: &str = "bind memory";

/// Memory of the caller that results are read into, touched before.
enum Room {
    F64(Vec<f64>),
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Room {
    fn new(dtype: DType, elements: usize) -> Room {
        match dtype {
            DType::F64 => Room::F64(vec![1.0; elements]),
            DType::F16 => Room::F16(vec![f16::ONE; elements]),
            DType::BF16 => Room::Bf16(vec![bf16::ONE; elements]),
            _ => Room::F32(vec![1.0; elements]),
        }
    }

    fn read(&mut self, tensor: &Tensor, deadline: Deadline) -> Result<()> {
        match self {
            Room::F64(out) => tensor.read_into(out, deadline),
            Room::F32(out) => tensor.read_into(out, deadline),
            Room::F16(out) => tensor.read_into(out, deadline),
            Room::Bf16(out) => tensor.read_into(out, deadline),
        }
    }

    fn bytes(&self) -> u64 {
        (match self {
            Room::F64(out) => size_of_val(&out[..]),
            Room::F32(out) => size_of_val(&out[..]),
            Room::F16(out) => size_of_val(&out[..]),
            Room::Bf16(out) => size_of_val(&out[..]),
        }) as u64
    }

    fn numbers(&self) -> Vec<f64> {
        match self {
            Room::F64(out) => out.clone(),
            Room::F32(out) => out.iter().map(|&x| f64::from(x)).collect(),
            Room::F16(out) => out.iter().map(|x| f64::from(f32::from(*x))).collect(),
            Room::Bf16(out) => out.iter().map(|x| f64::from(f32::from(*x))).collect(),
        }
    }
}

impl<'a> Subject<'a> {
    /// With operands that follow from `seed`; fails where the operation does not take them.
    pub fn new(
        engine: &'a Engine,
        operation: &'static Operation,
        size: usize,
        dtype: DType,
        seed: u64,
        deadline: Duration,
    ) -> Result<Subject<'a>> {
        let shapes = (operation.operands)(size);
        let given: Vec<(HostBytes, Spec)> = shapes
            .iter()
            .zip(seed..)
            .map(|(shape, seed)| (numbers(shape, dtype, seed), Spec::new(dtype, &shape[..])))
            .collect();
        let kept: Vec<Tensor> =
            given.iter().map(|(bytes, spec)| engine.from_bytes(bytes.clone(), spec.clone())).collect();
        let elements = (operation.write)(&kept).check()?.shape.elements();
        Ok(Subject {
            engine,
            operation,
            given,
            kept,
            out: Room::new(dtype, elements),
            links: BTreeMap::new(),
            deadline,
        })
    }

    /// The engine that computes it.
    pub fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// What a call of [`Mode::Copy`] copies.
    pub fn copied(&self) -> Copied {
        let upload_bytes = self.given.iter().map(|(bytes, _)| bytes.len() as u64).sum();
        Copied { upload_bytes, read_bytes: self.out.bytes() }
    }

    /// Elements of its first operand, by which curves are drawn.
    pub fn elements(&self) -> u64 {
        self.given[0].1.shape.elements() as u64
    }

    /// The shape of its first operand in words.
    pub fn shape(&self) -> String {
        self.given[0].1.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
    }

    /// What the result must be: computed in f64 from the very operands, on the CPU.
    pub fn wanted(&self) -> Result<Vec<f64>> {
        let exact: Vec<Tensor> = self.kept.iter().map(|t| t.cast(DType::F64)).collect();
        (self.operation.write)(&exact).on(DeviceId::HOST).to_vec()
    }

    /// The graph that a call in `mode` computes, over operands that stay where they are.
    pub fn written(&self, mode: Mode, device: Option<DeviceId>) -> Tensor {
        placed(self.repeated(&self.kept, mode), device)
    }

    /// Reads what [`Subject::written`] gives, untimed.
    pub fn compute(&mut self, mode: Mode, device: Option<DeviceId>) -> Result<Vec<f64>> {
        let result = self.written(mode, device);
        self.out.read(&result, Deadline::after(self.deadline))?;
        Ok(self.out.numbers())
    }

    /// One call, timed by `clock` from just before the operands are handed over until the result is there.
    pub fn call(&mut self, mode: Mode, device: Option<DeviceId>, clock: &dyn Clock) -> Result<Sample> {
        if let Mode::Idle(milliseconds) = mode {
            clock.rest(Duration::from_millis(u64::from(milliseconds)));
        }
        let deadline = Deadline::after(self.deadline);
        let begun = clock.now();
        match mode {
            Mode::Upload => {
                let result = placed((self.operation.write)(&self.fresh()), device);
                self.engine.run_by(&[&result], deadline)?;
            }
            Mode::Resident | Mode::Chain(_) => {
                let result = self.written(mode, device);
                self.engine.run_by(&[&result], deadline)?;
            }
            Mode::Kernel => return self.kernel(device),
            Mode::Copy => return self.copy(device, clock, deadline),
            _ => {
                let result = placed((self.operation.write)(&self.fresh()), device);
                self.out.read(&result, deadline)?;
            }
        }
        Ok(Sample { wall_ns: clock.nanoseconds_since(begun), ..Sample::default() })
    }

    /// One call whose parts are measured, and what ran. It goes a longer way than [`Subject::call`] and its kernels are timed one by
    /// one, so its whole time does not count.
    pub fn call_in_parts(
        &mut self,
        mode: Mode,
        device: Option<DeviceId>,
        clock: &dyn Clock,
    ) -> Result<(Sample, breakeven::Report)> {
        let begun = clock.now();
        let stays = matches!(mode, Mode::Resident | Mode::Chain(_) | Mode::Kernel);
        let result =
            if stays { self.written(mode, device) } else { placed((self.operation.write)(&self.fresh()), device) };
        let report = self.traced(&result, stays || mode == Mode::Upload)?;
        Ok((Sample { wall_ns: clock.nanoseconds_since(begun), ..parts(&report) }, report))
    }

    fn traced(&self, result: &Tensor, stays: bool) -> Result<breakeven::Report> {
        if stays { self.engine.run_traced(&[result]) } else { self.engine.read_traced(&[result]) }
    }

    /// The kernels of one call, by the device's own clock; no time where it does not tell.
    fn kernel(&self, device: Option<DeviceId>) -> Result<Sample> {
        let report = self.traced(&self.written(Mode::Kernel, device), true)?;
        let known = parts(&report).kernel_ns;
        let flags = if known.is_some() { Flags::NONE } else { Flags::NONE.with(Flag::BadClock) };
        Ok(Sample { wall_ns: known.unwrap_or(0), flags, ..Sample::default() })
    }

    /// Bringing the operands and reading as many bytes as the result has, without any kernel.
    fn copy(&mut self, device: Option<DeviceId>, clock: &dyn Clock, deadline: Deadline) -> Result<Sample> {
        let id = device.unwrap_or(DeviceId::HOST);
        let gone = || breakeven::Error::Placement(format!("device {} is not there", id.0));
        let device = self.engine.device(id).ok_or_else(gone)?;
        let failed = |source| breakeven::Error::Device { device: device.info().name.clone(), source };
        let link = match self.links.entry(id) {
            Entry::Occupied(link) => link.into_mut(),
            Entry::Vacant(free) => {
                let operands = self.given.iter().map(|(bytes, _)| bytes.clone()).collect();
                free.insert(Link::new(&device, operands, self.out.bytes()).map_err(failed)?)
            }
        };
        let upload_ns = nanoseconds(link.upload(clock, deadline).map_err(failed)?);
        let read_ns = nanoseconds(link.read(clock, deadline).map_err(failed)?);
        Ok(Sample {
            wall_ns: upload_ns + read_ns,
            upload_ns: Some(upload_ns),
            read_ns: Some(read_ns),
            ..Sample::default()
        })
    }

    fn fresh(&self) -> Vec<Tensor> {
        self.given.iter().map(|(bytes, spec)| self.engine.from_bytes(bytes.clone(), spec.clone())).collect()
    }

    fn repeated(&self, operands: &[Tensor], mode: Mode) -> Tensor {
        let times = if let Mode::Chain(times) = mode { times } else { 1 };
        let mut operands = operands.to_vec();
        for _ in 1..times {
            operands[0] = (self.operation.write)(&operands);
        }
        (self.operation.write)(&operands)
    }
}

fn placed(tensor: Tensor, device: Option<DeviceId>) -> Tensor {
    match device {
        Some(device) => tensor.on(device),
        None => tensor,
    }
}

/// What the submissions of a traced run took, summed over them.
fn parts(report: &breakeven::Report) -> Sample {
    let sum = |part: fn(&breakeven_device::Timing) -> Option<Duration>| {
        let known: Vec<Duration> = report.submissions.iter().filter_map(|(_, timing)| part(timing)).collect();
        (known.len() == report.submissions.len() && !known.is_empty()).then(|| nanoseconds(known.iter().sum()))
    };
    Sample {
        allocate_ns: binding(report),
        upload_ns: sum(|t| Some(t.upload)),
        dispatch_ns: sum(|t| Some(t.dispatch)),
        kernel_ns: sum(|t| t.kernel),
        read_ns: sum(|t| Some(t.read)),
        wait_ns: sum(|t| Some(t.wait)),
        ..Sample::default()
    }
}

/// What getting the memory of all submissions took. None where several devices took part: one of them waited for another meanwhile. None on
/// the CPU either: a traced run gets memory there, and a call as it is timed works in the caller's.
fn binding(report: &breakeven::Report) -> Option<u64> {
    let is_one = report.submissions.windows(2).all(|pair| pair[0].0 == pair[1].0);
    let is_one = is_one && report.submissions.iter().all(|(device, _)| *device != DeviceId::HOST);
    let events = report.trace().filter(|_| is_one)?.events().iter();
    let times: Vec<Duration> = events.filter(|event| event.name == BINDING).map(|event| event.duration).collect();
    (!times.is_empty()).then(|| nanoseconds(times.iter().sum()))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Numbers of both signs from 0.5 to 1.5 without a pattern: products of many of them neither grow nor decay.
fn numbers(shape: &[usize], dtype: DType, seed: u64) -> HostBytes {
    let value = |i: usize| {
        // SplitMix64's finalizer: neighbouring indices and seeds have nothing in common.
        let mut bits = (i as u64).wrapping_add(seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let size = (bits >> 40) as f32 / (1 << 24) as f32 + 0.5;
        if bits & 1 == 0 { size } else { -size }
    };
    let count = 0..shape.iter().product();
    match dtype {
        DType::F64 => HostBytes::from_vec(count.map(|i| f64::from(value(i))).collect::<Vec<_>>()),
        DType::F16 => HostBytes::from_vec(count.map(|i| f16::from_f32(value(i))).collect::<Vec<_>>()),
        DType::BF16 => HostBytes::from_vec(count.map(|i| bf16::from_f32(value(i))).collect::<Vec<_>>()),
        _ => HostBytes::from_vec(count.map(value).collect::<Vec<_>>()),
    }
}
