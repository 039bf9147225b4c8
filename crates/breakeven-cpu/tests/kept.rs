//! Right operands that are used again are packed once: results stay the same bit by bit, bytes that change are seen, and the
//! copies count as memory and give way to it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::{
    Binding, Buffer, Deadline, Device, HostBytes, Lane, Lent, MemoryKind, Prepared, Segment, SegmentStep, size_class,
};
use breakeven_ir::{DType, Expr, Kernel, Launch, Layout, MatMul, Operand, Precision, Scalar, Shape};
use common::{Random, buffer, device};

/// Uses of the same bytes after which they are packed.
const USES: usize = 3;

fn product(dtype: DType, batch: usize, sizes: [usize; 3], is_turned: bool) -> Kernel {
    product_at((dtype, Precision::Highest), batch, sizes, is_turned)
}

fn product_at((dtype, precision): (DType, Precision), batch: usize, [m, k, n]: [usize; 3], is_turned: bool) -> Kernel {
    let sums = if dtype.is_half() { DType::F32 } else { dtype };
    let dense = |dtype, shape: [usize; 3]| Operand::new(dtype, Layout::dense(Shape::from(shape)));
    let mut b = dense(dtype, [batch, k, n]);
    b.layout.strides = if is_turned { [0, 1, k as isize] } else { [0, n as isize, 1] }.into_iter().collect();
    Kernel::MatMul(MatMul {
        batch: [batch].into(),
        m,
        n,
        k,
        a: dense(dtype, [batch, m, k]),
        b,
        precision,
        post: Expr::identity(sums),
        params: Vec::new(),
        inputs: Vec::new(),
        out: dense(sums, [batch, m, n]),
    })
}

/// A product of a left operand and of a right one that is bound anew for each run.
struct Work {
    kernel: Kernel,
    prepared: Arc<dyn Prepared>,
    left: Buffer,
    out: Buffer,
}

impl Work {
    fn new(device: &CpuDevice, kernel: &Kernel, left: &[u8]) -> Work {
        let launch = Launch { kernel: kernel.clone(), inputs: vec![0, 1], outputs: vec![2], workspace: None };
        let prepared = device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] });
        let out = device.alloc(kernel.outputs()[0].span_bytes(), MemoryKind::Resident).expect("memory");
        Work { kernel: kernel.clone(), prepared: prepared.expect("a product"), left: buffer(device, left), out }
    }

    fn run(&self, device: &CpuDevice, right: &Buffer) -> Vec<u8> {
        let buffers = vec![self.left.clone(), right.clone(), self.out.clone()];
        let ticket = device.submit(&self.prepared, Binding { buffers, ..Binding::default() }, Lane::Compute, &[]);
        device.wait(ticket.expect("it runs"), Deadline::after(Duration::from_secs(10))).expect("it is done");
        self.read(device)
    }

    /// What lies in its output, which stays writable.
    fn read(&self, device: &CpuDevice) -> Vec<u8> {
        let bytes = self.out.bytes();
        let read = Segment { steps: vec![SegmentStep::Download { slot: 0, bytes, read: 0 }] };
        let cell = breakeven_device::ReadCell::new();
        let binding = Binding {
            buffers: vec![self.out.clone()],
            uploads: Vec::new(),
            reads: vec![cell.clone()],
            ..Binding::default()
        };
        device.submit(&device.prepare(&read).expect("a read"), binding, Lane::CopyOut, &[]).expect("it is read");
        cell.take().expect("filled").to_vec()
    }
}

fn random(kernel: &Kernel, seed: u64) -> [Vec<u8>; 2] {
    let mut random = Random(seed);
    let inputs = kernel.inputs();
    [0, 1].map(|k| random.fill(inputs[k], false))
}

fn write(device: &CpuDevice, to: &Buffer, bytes: &[u8]) {
    let upload = Segment { steps: vec![SegmentStep::Upload { upload: 0, slot: 0 }] };
    let uploads = vec![HostBytes::from_vec(bytes.to_vec())];
    let binding = Binding { buffers: vec![to.clone()], uploads, reads: Vec::new(), ..Binding::default() };
    device.submit(&device.prepare(&upload).expect("an upload"), binding, Lane::CopyIn, &[]).expect("it is written");
}

fn live(device: &CpuDevice) -> u64 {
    device.memory().pool.live_bytes
}

#[test]
fn the_same_bits_before_and_after_packing_on_any_number_of_threads() {
    let sizes = [
        [3, 40, 9],
        [3, 500, 301],
        [16, 70, 1130],
        [17, 600, 304],
        [32, 133, 900],
        [33, 1100, 349],
        [48, 530, 400],
        [100, 264, 596],
        [270, 128, 600],
    ];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let devices = [1, 2, 3].map(|threads| device(isa, threads));
        let exact = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|dtype| (dtype, Precision::Highest));
        for level in exact.into_iter().chain([(DType::F32, Precision::Medium), (DType::BF16, Precision::High)]) {
            for (at, sizes) in sizes.into_iter().enumerate() {
                for is_turned in [false, true] {
                    let kernel = product_at(level, 1 + at % 2, sizes, is_turned);
                    let [left, right] = random(&kernel, 1 + at as u64);
                    let results = devices.each_ref().map(|device| {
                        let (work, right) = (Work::new(device, &kernel, &left), buffer(device, &right));
                        let before = live(device);
                        let results = [(); USES + 2].map(|()| work.run(device, &right));
                        assert_eq!(live(device) > before, at > 0, "{sizes:?}: all but small ones are packed");
                        results
                    });
                    let first = &results[0][0];
                    assert!(results.iter().flatten().all(|r| r == first), "{isa} {level:?} {sizes:?} {is_turned}");
                }
            }
        }
    }
}

#[test]
fn one_weight_is_packed_for_each_precision() {
    let device = device(Isa::best(), 2);
    let kernels = Precision::ALL.map(|precision| product_at((DType::F32, precision), 1, [40, 256, 300], true));
    let [left, right] = random(&kernels[0], 3);
    let alone =
        kernels.each_ref().map(|kernel| Work::new(&device, kernel, &left).run(&device, &buffer(&device, &right)));
    let (works, right) = (kernels.each_ref().map(|kernel| Work::new(&device, kernel, &left)), buffer(&device, &right));
    for _ in 0..USES + 2 {
        for (work, alone) in works.iter().zip(&alone) {
            assert!(work.run(&device, &right) == *alone);
        }
    }
}

#[test]
fn what_is_written_anew_is_packed_anew() {
    let device = device(Isa::best(), 2);
    let kernel = product(DType::F32, 1, [16, 256, 256], true);
    let ([left, first], [_, second]) = (random(&kernel, 1), random(&kernel, 2));
    let work = Work::new(&device, &kernel, &left);
    let want = [&first, &second].map(|right| work.run(&device, &buffer(&device, right)));
    assert_ne!(want[0], want[1]);
    let right = buffer(&device, &first);
    let before = live(&device);
    for round in [&first, &second, &first] {
        write(&device, &right, round);
        assert_eq!(live(&device), before, "the copy of what was there is given back");
        for _ in 0..=USES {
            assert_eq!(work.run(&device, &right), want[usize::from(round == &second)]);
        }
        assert!(live(&device) > before);
    }
    // The next one gets the same memory from the pool.
    drop(right);
    let other = buffer(&device, &second);
    assert_eq!(live(&device), before);
    assert_eq!(work.run(&device, &other), want[1]);
}

/// Floats that their owner changes while others hold them: all ones, or all twos.
struct Changing {
    is_second: AtomicBool,
    vectors: [HostBytes; 2],
}

impl AsRef<[u8]> for Changing {
    fn as_ref(&self) -> &[u8] {
        &self.vectors[usize::from(self.is_second.load(Ordering::Relaxed))]
    }
}

#[test]
fn host_memory_that_others_may_write_is_never_kept() {
    let device = device(Isa::best(), 2);
    let kernel = product(DType::F32, 1, [8, 24, 32], false);
    let [left, _] = random(&kernel, 1);
    let work = Work::new(&device, &kernel, &left);
    let vectors = [1f32, 2.0].map(|x| HostBytes::from_vec(vec![x; 24 * 32]));
    let owner = Arc::new(Changing { is_second: AtomicBool::new(false), vectors });
    let right = HostBytes::shared(owner.clone());
    let before = live(&device);
    for is_second in [false, true, false] {
        owner.is_second.store(is_second, Ordering::Relaxed);
        let want = work.run(&device, &buffer(&device, &right));
        for _ in 0..=USES {
            let imported = device.import(&right).expect("aligned");
            assert_eq!(work.run(&device, &imported), want);
            assert_eq!(live(&device), before);
        }
    }
}

#[test]
fn host_bytes_keep_their_copy_as_long_as_they_live_and_lent_ones_too() {
    let device = device(Isa::best(), 2);
    let kernel = product(DType::F32, 1, [16, 256, 256], true);
    let [left, right] = random(&kernel, 1);
    let work = Work::new(&device, &kernel, &left);
    let want = work.run(&device, &buffer(&device, &right));
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let host = HostBytes::from_vec(floats(&right));
    let before = live(&device);
    let lent = |right: Lent<'_>| {
        let mut out = vec![0; want.len()];
        let done = device.run_lent(&work.prepared, &mut [Lent::Read(&left), right, Lent::Write(&mut out)]);
        done.expect("the CPU works in the host's memory").expect("it runs");
        out
    };
    (0..=USES).for_each(|_| assert_eq!(lent(Lent::Read(&right)), want));
    assert_eq!(live(&device), before, "nobody knows whether these change");
    (0..=USES).for_each(|_| assert_eq!(lent(Lent::Host(&host)), want));
    let packed = live(&device) - before;
    assert!(packed >= right.len() as u64);
    // The same bytes another way, at once.
    assert_eq!(work.run(&device, &device.import(&host).expect("aligned")), want);
    assert_eq!(live(&device), before + packed);
    drop(host);
    assert_eq!(live(&device), before);
    assert_eq!(work.kernel.inputs().len(), 2);
}

#[test]
fn copies_are_bounded_and_give_way_to_memory_for_values() {
    let kernel = product(DType::F32, 1, [16, 256, 256], true);
    let [left, right] = random(&kernel, 1);
    let open = |memory_bytes, kept_bytes| {
        let tuning = Tuning { part_ns: 1.0, kept_bytes, ..Tuning::default() };
        let options =
            CpuOptions { threads: Some(2), memory_bytes: Some(memory_bytes), tuning, ..CpuOptions::default() };
        CpuDevice::new(options).expect("a CPU")
    };
    let packed = size_class(right.len() as u64);
    for (memory, kept, is_kept) in
        [(1 << 20, u64::MAX, true), (1 << 20, packed - 1, false), (400 << 10, u64::MAX, false)]
    {
        let device = open(memory, kept);
        let (work, buffer) = (Work::new(&device, &kernel, &left), buffer(&device, &right));
        let (want, before) = (work.run(&device, &buffer), live(&device));
        (0..=USES).for_each(|_| assert_eq!(work.run(&device, &buffer), want));
        assert_eq!(live(&device) - before, if is_kept { packed } else { 0 });
        let rest = memory - before - (32 << 10);
        let value = device.alloc(rest * 4 / 5, MemoryKind::Resident).expect("copies give way");
        assert_eq!(live(&device) - before, size_class(rest * 4 / 5), "the copy is gone");
        assert_eq!(work.run(&device, &buffer), want);
        drop(value);
        device.trim(Duration::ZERO);
        (0..=USES).for_each(|_| assert_eq!(work.run(&device, &buffer), want));
        assert_eq!(live(&device) - before, if is_kept { packed } else { 0 }, "and is made again");
        device.trim(Duration::from_mins(1));
        assert_eq!(live(&device) - before, if is_kept { packed } else { 0 }, "it was used lately");
        device.trim(Duration::ZERO);
        assert_eq!(live(&device), before);
    }
}

#[test]
fn a_device_that_is_gone_holds_no_copies() {
    let kernel = product(DType::F32, 1, [16, 256, 256], true);
    let [left, right] = random(&kernel, 1);
    let floats: Vec<f32> = (0..right.len() / 4).map(|i| Scalar::load(DType::F32, &right, i).to_f64() as f32).collect();
    let host = HostBytes::from_vec(floats);
    let run = || {
        let device = device(Isa::best(), 2);
        let work = Work::new(&device, &kernel, &left);
        let before = live(&device);
        let results = [(); USES + 1].map(|()| work.run(&device, &device.import(&host).expect("aligned")));
        assert!(live(&device) > before);
        results
    };
    let first = run();
    assert!(run().iter().chain(&first).all(|result| *result == first[0]));
    // What is left beside the bytes is the count of uses of each device.
    assert!(!host.derived().expect("a vector that was given away").0.is_empty());
}
