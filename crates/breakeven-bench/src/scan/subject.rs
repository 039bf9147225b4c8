//! One operation at one size, ready to be called in every mode on every device, with the result that it must have.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::ops::Range;
use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, Engine, HostBytes, Result, Spec, Tensor, bf16, f16};
use breakeven_study::{Copied, Flag, Flags, Mode, Sample};

use super::clock::{Clock, HostClock};
use super::link::Link;
use super::operation::{Operation, Suite};
use super::scalar;

/// An operation at a size, and operands that follow from a seed.
pub struct Operands {
    operation: &'static Operation,
    /// As the operation counts it.
    pub size: usize,
    dtype: DType,
    seed: u64,
    /// Bytes of the host, uploaded anew where that is asked for.
    given: Vec<(HostBytes, Spec)>,
    /// The same for each of several calls, with its part of the result; empty where there is one call.
    parts: Vec<Part>,
}

/// What one of several calls takes.
struct Part {
    /// Its place in the result.
    range: Range<usize>,
    given: Vec<(HostBytes, Spec)>,
}

impl Operands {
    /// In memory, which no device has seen yet.
    pub fn new(operation: &'static Operation, size: usize, dtype: DType, seed: u64) -> Operands {
        let shapes = (operation.operands)(size);
        let of = |(i, shape): (usize, &Vec<usize>), range| {
            numbers(range, dtype, seed + i as u64, scale(operation, i, shape))
        };
        let whole = |(i, shape): (usize, &Vec<usize>)| {
            (of((i, shape), 0..shape.iter().product()), Spec::new(dtype, &shape[..]))
        };
        let part = |range: Range<usize>| {
            let operand = |operand| (of(operand, range.clone()), Spec::new(dtype, [range.len()]));
            Part { given: shapes.iter().enumerate().map(operand).collect(), range }
        };
        let (calls, all) = (operation.calls, shapes[0].iter().product::<usize>());
        let ranges = (0..calls).filter(|_| calls > 1).map(|i| all * i / calls..all * (i + 1) / calls);
        let (given, parts) = (shapes.iter().enumerate().map(whole).collect(), ranges.map(part).collect());
        Operands { operation, size, dtype, seed, given, parts }
    }

    /// In how many calls the result is computed.
    pub fn calls(&self) -> usize {
        self.operation.calls
    }

    /// The same at a size, in memory of its own.
    pub fn at(&self, size: usize) -> Operands {
        Operands::new(self.operation, size, self.dtype, self.seed)
    }
}

/// What results must be, by how often the operation is repeated on its own result.
pub type References = BTreeMap<u32, Vec<f64>>;

/// An operation at a size, on an engine.
pub struct Subject<'a> {
    engine: &'a Engine,
    operands: Operands,
    /// The same operands as tensors that stay where they were used.
    kept: Vec<Tensor>,
    out: Room,
    /// The ways to devices whose copies were measured.
    links: BTreeMap<DeviceId, Link>,
    deadline: Duration,
    /// The operands as a plain loop has them, once there is one.
    plain: Vec<Vec<f32>>,
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
        self.read_part(0..self.elements(), tensor, deadline)
    }

    fn read_part(&mut self, range: Range<usize>, tensor: &Tensor, deadline: Deadline) -> Result<()> {
        match self {
            Room::F64(out) => tensor.read_into(&mut out[range], deadline),
            Room::F32(out) => tensor.read_into(&mut out[range], deadline),
            Room::F16(out) => tensor.read_into(&mut out[range], deadline),
            Room::Bf16(out) => tensor.read_into(&mut out[range], deadline),
        }
    }

    fn elements(&self) -> usize {
        match self {
            Room::F64(out) => out.len(),
            Room::F32(out) => out.len(),
            Room::F16(out) => out.len(),
            Room::Bf16(out) => out.len(),
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
    /// Fails where the operation does not take these operands.
    pub fn new(engine: &'a Engine, operands: Operands, deadline: Duration) -> Result<Subject<'a>> {
        let tensor = |(bytes, spec): &(HostBytes, Spec)| engine.from_bytes(bytes.clone(), spec.clone());
        let kept: Vec<Tensor> = operands.given.iter().map(tensor).collect();
        let elements = (operands.operation.write)(&kept).check()?.shape.elements();
        let out = Room::new(operands.dtype, elements);
        Ok(Subject { engine, operands, kept, out, links: BTreeMap::new(), deadline, plain: Vec::new() })
    }

    /// What a call of [`Mode::Copy`] copies.
    pub fn copied(&self) -> Copied {
        let upload_bytes = self.operands.given.iter().map(|(bytes, _)| bytes.len() as u64).sum();
        Copied { upload_bytes, read_bytes: self.out.bytes() }
    }

    /// What it computes from.
    pub fn operands(&self) -> &Operands {
        &self.operands
    }

    /// What results must be in these modes: computed in f64 from the very operands, on the CPU. Between links of a chain a result is
    /// rounded as the type of the elements does.
    pub fn references(&self, modes: impl IntoIterator<Item = Mode>) -> Result<References> {
        let times: BTreeSet<u32> = modes.into_iter().map(times).collect();
        times.into_iter().map(|times| Ok((times, self.reference(times)?))).collect()
    }

    fn reference(&self, times: u32) -> Result<Vec<f64>> {
        let mut exact: Vec<Tensor> = self.kept.iter().map(|t| t.cast(DType::F64)).collect();
        let write = self.operands.operation.write;
        for _ in 1..times {
            exact[0] = write(&exact).cast(self.operands.dtype).cast(DType::F64);
        }
        write(&exact).on(DeviceId::HOST).to_vec()
    }

    /// The graph that a call in `mode` computes, over operands that stay where they are.
    pub fn written(&self, mode: Mode, device: Option<DeviceId>) -> Tensor {
        placed(self.repeated(&self.kept, mode), device)
    }

    /// Reads what [`Subject::written`] gives, untimed.
    pub fn compute(&mut self, mode: Mode, device: Option<DeviceId>) -> Result<Vec<f64>> {
        let deadline = Deadline::after(self.deadline);
        if self.operands.parts.is_empty() {
            let result = self.written(mode, device);
            self.out.read(&result, deadline)?;
        } else {
            self.call_by_call(device, deadline)?;
        }
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
                let result = placed(self.write_fresh(), device);
                self.engine.run_by(&[&result], deadline)?;
            }
            Mode::Resident | Mode::Chain(_) => {
                let result = self.written(mode, device);
                self.engine.run_by(&[&result], deadline)?;
            }
            Mode::Kernel => return self.kernel(device),
            Mode::Copy => return self.copy(device, clock, deadline),
            _ if !self.operands.parts.is_empty() => self.call_by_call(device, deadline)?,
            _ => {
                let result = placed(self.write_fresh(), device);
                self.out.read(&result, deadline)?;
            }
        }
        Ok(Sample { wall_ns: clock.nanoseconds_since(begun), ..Sample::default() })
    }

    /// One call of the plain loop of the operation.
    pub fn call_plainly(&mut self, clock: &dyn Clock) -> Result<Sample> {
        let name = self.operands.operation.name;
        let (Some(run), Room::F32(out)) = (scalar::find(name), &mut self.out) else {
            return Err(breakeven::Error::Placement(format!(
                "there is no plain loop of {name} on elements of this type"
            )));
        };
        if self.plain.is_empty() {
            self.plain = self.operands.given.iter().map(|(bytes, _)| bytemuck::pod_collect_to_vec(bytes)).collect();
        }
        let begun = clock.now();
        run(black_box(&self.plain), self.operands.size, out);
        black_box(out);
        Ok(Sample { wall_ns: clock.nanoseconds_since(begun), ..Sample::default() })
    }

    /// What the plain loop gives, untimed.
    pub fn compute_plainly(&mut self) -> Result<Vec<f64>> {
        self.call_plainly(&HostClock::start())?;
        Ok(self.out.numbers())
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
        if !self.operands.parts.is_empty() {
            let reports = self.traced_call_by_call(device)?;
            let sum = reports.iter().map(parts).reduce(added).expect("several calls");
            let last = reports.into_iter().next_back().expect("several calls");
            return Ok((Sample { wall_ns: clock.nanoseconds_since(begun), ..sum }, last));
        }
        let report = self.traced(&self.next(mode, device), stays(mode) || mode == Mode::Upload)?;
        Ok((Sample { wall_ns: clock.nanoseconds_since(begun), ..parts(&report) }, report))
    }

    /// What the engine predicts for a call; `None` where it predicts nothing: for copies by themselves, and for what it refuses.
    pub fn predicted(&self, mode: Mode, device: Option<DeviceId>) -> Option<Duration> {
        if mode == Mode::Copy {
            return None;
        }
        // Several calls are alike.
        let (calls, result) = match self.operands.parts.first() {
            Some(part) => (self.operands.calls(), placed(self.on_new(&part.given), device)),
            None => (1, self.next(mode, device)),
        };
        let seconds = calls as f64 * self.engine.explain(&[&result]).ok()?.predicted.seconds;
        Duration::try_from_secs_f64(seconds).ok().filter(|predicted| *predicted > Duration::ZERO)
    }

    /// What the next call in `mode` computes.
    fn next(&self, mode: Mode, device: Option<DeviceId>) -> Tensor {
        if stays(mode) { self.written(mode, device) } else { placed(self.write_fresh(), device) }
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
                let operands = self.operands.given.iter().map(|(bytes, _)| bytes.clone()).collect();
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

    /// The operation on operands that are on no device yet.
    fn write_fresh(&self) -> Tensor {
        self.on_new(&self.operands.given)
    }

    /// One call after the other, from the host's memory to the host's memory.
    fn call_by_call(&mut self, device: Option<DeviceId>, deadline: Deadline) -> Result<()> {
        for Part { range, given } in &self.operands.parts {
            let result = placed(self.on_new(given), device);
            self.out.read_part(range.clone(), &result, deadline)?;
        }
        Ok(())
    }

    fn traced_call_by_call(&self, device: Option<DeviceId>) -> Result<Vec<breakeven::Report>> {
        let parts = self.operands.parts.iter();
        parts.map(|part| self.traced(&placed(self.on_new(&part.given), device), false)).collect()
    }

    /// The operation on these operands, which are on no device yet.
    fn on_new(&self, operands: &[(HostBytes, Spec)]) -> Tensor {
        let tensor = |(bytes, spec): &(HostBytes, Spec)| self.engine.from_bytes(bytes.clone(), spec.clone());
        (self.operands.operation.write)(&operands.iter().map(tensor).collect::<Vec<_>>())
    }

    fn repeated(&self, operands: &[Tensor], mode: Mode) -> Tensor {
        let (mut operands, write) = (operands.to_vec(), self.operands.operation.write);
        for _ in 1..times(mode) {
            operands[0] = write(&operands);
        }
        write(&operands)
    }
}

/// How often a mode repeats the operation in one call.
pub fn times(mode: Mode) -> u32 {
    if let Mode::Chain(times) = mode { times.max(1) } else { 1 }
}

/// Whether operands and result stay on the device.
fn stays(mode: Mode) -> bool {
    matches!(mode, Mode::Resident | Mode::Chain(_) | Mode::Kernel)
}

fn placed(tensor: Tensor, device: Option<DeviceId>) -> Tensor {
    match device {
        Some(device) => tensor.on(device),
        None => tensor,
    }
}

/// The parts of two calls together, as far as both are known.
fn added(a: Sample, b: Sample) -> Sample {
    let sum = |part: fn(&Sample) -> Option<u64>| part(&a).zip(part(&b)).map(|(a, b)| a + b);
    Sample {
        allocate_ns: sum(|sample| sample.allocate_ns),
        upload_ns: sum(|sample| sample.upload_ns),
        dispatch_ns: sum(|sample| sample.dispatch_ns),
        kernel_ns: sum(|sample| sample.kernel_ns),
        read_ns: sum(|sample| sample.read_ns),
        wait_ns: sum(|sample| sample.wait_ns),
        ..a
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
        dispatch_ns: sum(|t| t.dispatch),
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

/// What operands are multiplied by: the weights of a model's layer are so small that what it sums is as large as what it was given. Scores of
/// attention that are hundreds apart would make any rounding a large difference.
fn scale(operation: &Operation, operand: usize, shape: &[usize]) -> f32 {
    match shape.last() {
        Some(&summed) if operation.suite == Suite::Models && operand > 0 => 1.0 / (summed as f32).sqrt(),
        _ => 1.0,
    }
}

/// Numbers of both signs without a pattern, from 0.5 to 1.5 in size times `scale`: products of many of them neither grow nor decay. Those at the
/// places `count` of all.
fn numbers(count: Range<usize>, dtype: DType, seed: u64, scale: f32) -> HostBytes {
    let value = |i: usize| {
        // SplitMix64's finalizer: neighbouring indices and seeds have nothing in common.
        let mut bits = (i as u64).wrapping_add(seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let size = ((bits >> 40) as f32 / (1 << 24) as f32 + 0.5) * scale;
        if bits & 1 == 0 { size } else { -size }
    };
    match dtype {
        DType::F64 => HostBytes::from_vec(count.map(|i| f64::from(value(i))).collect::<Vec<_>>()),
        DType::F16 => HostBytes::from_vec(count.map(|i| f16::from_f32(value(i))).collect::<Vec<_>>()),
        DType::BF16 => HostBytes::from_vec(count.map(|i| bf16::from_f32(value(i))).collect::<Vec<_>>()),
        _ => HostBytes::from_vec(count.map(value).collect::<Vec<_>>()),
    }
}
