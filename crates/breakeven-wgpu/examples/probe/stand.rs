//! What the measurements share: buffers, submissions, and times after a warm-up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{
    Binding, Buffer, Copier, Deadline, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{DType, Expr, Kernel, Launch, Layout, Operand, Row, Scalar, Shape};
use breakeven_wgpu::WgpuDevice;

/// Work before the first time that counts: a card that was idle needs 0.3 s to raise its clock.
const WARM_UP: Duration = Duration::from_millis(400);
/// How long is measured, at least so many runs.
const MEASURED: Duration = Duration::from_millis(150);
const LEAST_RUNS: usize = 12;
/// Submissions that one wait ends, for those who count so: the host's part is hidden behind the kernels.
const IN_A_ROW: u8 = 20;

/// A device on the test stand.
pub struct Stand {
    pub device: WgpuDevice,
    /// What copies on the host: the CPU's threads.
    pub copier: Copier,
    /// Divides sizes, for devices that are programs.
    pub shrink: usize,
    /// Part of the names of what is measured.
    pub only: String,
    /// Kernels are measured as one of [`IN_A_ROW`], too.
    pub in_a_row: bool,
}

/// Lower quartiles of wall and kernel time, of encoding with submitting, and of waiting, in seconds; and of one in a row.
#[derive(Clone, Copy)]
pub struct Times {
    pub in_a_row: Option<f64>,
    pub wall: f64,
    pub kernel: f64,
    pub dispatch: f64,
    pub wait: f64,
}

pub fn f32s(shape: impl Into<Shape>) -> Operand {
    Operand::new(DType::F32, Layout::dense(shape))
}

/// Wall time of something that is done many times, after a warm-up.
pub fn walls(mut act: impl FnMut()) -> f64 {
    let runs = often(|| {
        let start = Instant::now();
        act();
        start.elapsed().as_secs_f64()
    });
    quartile(&runs, |wall| *wall)
}

fn often<T>(mut run: impl FnMut() -> T) -> Vec<T> {
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        run();
    }
    let (start, mut runs) = (Instant::now(), Vec::new());
    while start.elapsed() < MEASURED || runs.len() < LEAST_RUNS {
        runs.push(run());
    }
    runs
}

fn quartile<T>(runs: &[T], time: impl Fn(&T) -> f64) -> f64 {
    let mut all: Vec<f64> = runs.iter().map(time).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 4]
}

/// A row of the table over f32.
pub fn row(name: &str) -> Expr {
    Expr::row(Row::named(name).expect("a row"), DType::F32)
}

/// Numbers from -0.5 to 0.5 without a pattern.
pub fn value(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5
}

/// `work` operations or bytes in the kernel time, in millions of millions a second.
pub fn show(name: &str, times: Times, work: f64, unit: &str, is_right: bool) {
    let in_a_row = times.in_a_row.map_or(String::new(), |time| format!("one of {IN_A_ROW} {:>10.1} us  ", time * 1e6));
    println!(
        "  {name:<32} wall {:>10.1} us  {in_a_row}kernel {:>10.1} us  {:>8.2} {unit}  {}",
        times.wall * 1e6,
        times.kernel * 1e6,
        work / times.kernel / 1e12,
        if is_right { "right" } else { "WRONG" }
    );
}

impl Stand {
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    pub fn buffer(&self, elements: usize) -> Buffer {
        self.device.alloc(4 * elements as u64, MemoryKind::Resident).expect("there is memory")
    }

    pub fn filled(&self, elements: usize) -> (Buffer, Vec<f32>) {
        let values: Vec<f32> = (0..elements).map(value).collect();
        let buffer = self.buffer(elements);
        let work = self.prepare(vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
        let uploads = vec![HostBytes::from_vec(values.clone())];
        self.submit(&work, Binding { buffers: vec![buffer.clone()], uploads, reads: vec![], ..Binding::default() });
        (buffer, values)
    }

    /// As [`Stand::filled`], rounded to f16; the values are what was rounded to.
    pub fn filled_f16(&self, elements: usize) -> (Buffer, Vec<f32>) {
        let mut bytes = vec![0u8; 2 * elements];
        let mut round = |i: usize| {
            Scalar::F(f64::from(value(i))).store(DType::F16, &mut bytes, i);
            Scalar::load(DType::F16, &bytes, i).to_f64() as f32
        };
        let values: Vec<f32> = (0..elements).map(&mut round).collect();
        let buffer = self.buffer(elements.div_ceil(2));
        let work = self.prepare(vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
        let uploads = vec![HostBytes::from_vec(bytes)];
        self.submit(&work, Binding { buffers: vec![buffer.clone()], uploads, ..Binding::default() });
        (buffer, values)
    }

    /// 64 of `elements` numbers of f16, every `step`th around.
    pub fn read_f16(&self, buffer: &Buffer, elements: usize, step: usize) -> Vec<f32> {
        let bytes = self.bytes(buffer);
        (0..64).map(|i| Scalar::load(DType::F16, &bytes, i * step % elements).to_f64() as f32).collect()
    }

    pub fn read(&self, buffer: &Buffer) -> Vec<f32> {
        self.bytes(buffer).elements::<f32>().to_vec()
    }

    fn bytes(&self, buffer: &Buffer) -> HostBytes {
        let work = self.prepare(vec![SegmentStep::Download { slot: 0, bytes: buffer.bytes(), read: 0 }]);
        let read = ReadCell::new();
        self.submit(
            &work,
            Binding { buffers: vec![buffer.clone()], uploads: vec![], reads: vec![read.clone()], ..Binding::default() },
        );
        read.take().expect("it was read")
    }

    pub fn prepare(&self, steps: Vec<SegmentStep>) -> Arc<dyn Prepared> {
        self.device.prepare(&Segment { steps }).expect("it compiles")
    }

    /// Times of one submission.
    pub fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding) -> Times {
        let start = Instant::now();
        let ticket = self.device.submit(work, binding, Lane::Compute, &[]).expect("it is submitted");
        let timing = self.device.wait(ticket, Stand::deadline()).expect("it ends");
        Times {
            in_a_row: None,
            wall: start.elapsed().as_secs_f64(),
            kernel: timing.kernel.unwrap_or_default().as_secs_f64(),
            dispatch: timing.dispatch.unwrap_or_default().as_secs_f64(),
            wait: timing.wait.as_secs_f64(),
        }
    }

    /// When whatever is measured has to have ended.
    pub fn deadline() -> Deadline {
        Deadline::after(Duration::from_mins(2))
    }

    /// Times of many submissions, after a warm-up.
    pub fn times(&self, work: &Arc<dyn Prepared>, binding: &Binding) -> Times {
        let runs = often(|| self.submit(work, binding.clone()));
        Times {
            in_a_row: None,
            wall: quartile(&runs, |t| t.wall),
            kernel: quartile(&runs, |t| t.kernel),
            dispatch: quartile(&runs, |t| t.dispatch),
            wait: quartile(&runs, |t| t.wait),
        }
    }

    /// Runs `kernel`; gives its times and its first output.
    pub fn kernel(&self, kernel: Kernel, inputs: &[&Buffer]) -> (Times, Buffer) {
        let out = self.buffer(kernel.outputs()[0].layout.shape.elements());
        let launch =
            Launch { kernel, inputs: (0..inputs.len()).collect(), outputs: vec![inputs.len()], workspace: None };
        let buffers = inputs.iter().map(|&b| b.clone()).chain([out.clone()]).collect();
        (self.launches(vec![launch], buffers), out)
    }

    /// Times of launches in one submission.
    pub fn launches(&self, launches: Vec<Launch>, buffers: Vec<Buffer>) -> Times {
        let start = Instant::now();
        let work = self.prepare(launches.into_iter().map(|launch| SegmentStep::Launch(Box::new(launch))).collect());
        print!("  compiled in {:>7.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let binding = Binding { buffers, timed: true, ..Binding::default() };
        let times = self.times(&work, &binding);
        let untimed = Binding { timed: false, ..binding };
        Times { in_a_row: self.in_a_row.then(|| self.one_in_a_row(&work, &untimed)), ..times }
    }

    /// Wall time of one of many submissions that follow each other on the device.
    fn one_in_a_row(&self, work: &Arc<dyn Prepared>, binding: &Binding) -> f64 {
        let submit = |_| self.device.submit(work, binding.clone(), Lane::Compute, &[]).expect("it is submitted");
        let all = walls(|| {
            let tickets: Vec<_> = (0..IN_A_ROW).map(submit).collect();
            self.device.wait(tickets[tickets.len() - 1], Stand::deadline()).expect("it ends");
        });
        all / f64::from(IN_A_ROW)
    }
}
