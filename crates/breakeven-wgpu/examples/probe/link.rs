//! What submissions cost, and how fast bytes pass between host and device.

use breakeven_device::{Binding, Device, HostBytes, ReadCell, SegmentStep};
use breakeven_ir::{Kernel, Launch, Map};

use crate::stand::{Stand, Times, row, value, walls};

pub fn all(stand: &Stand) {
    if stand.wants("dispatches") {
        dispatches(stand);
        round_trip(stand);
    }
    for mib in [1usize, 2, 4, 8, 16, 32, 64, 256].map(|m| m.div_ceil(stand.shrink)) {
        if stand.wants("upload read") {
            transfers(stand, mib);
        }
    }
}

fn relu(n: usize, from: usize, to: usize) -> SegmentStep {
    let kernel = Kernel::Map(Map::dense(row("relu"), vec![], n));
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: vec![from], outputs: vec![to], workspace: None }))
}

/// Chains of dependent kernels in one submission.
fn dispatches(stand: &Stand) {
    let (a, b) = (stand.buffer(256), stand.buffer(256));
    for count in [1, 10, 20, 100] {
        let work = stand.prepare((0..count).map(|i| relu(256, i % 2, 1 - i % 2)).collect());
        for timed in [false, true] {
            let buffers = vec![a.clone(), b.clone()];
            let times = stand.times(&work, &Binding { buffers, timed, ..Binding::default() });
            println!("  {count:>3} dependent dispatches in a submit: {}", parts(times));
        }
    }
}

fn parts(times: Times) -> String {
    let [wall, kernel, dispatch, wait] = [times.wall, times.kernel, times.dispatch, times.wait].map(|t| t * 1e6);
    format!("wall {wall:>7.1} us: dispatch {dispatch:>6.1}, wait {wait:>6.1}, kernels {kernel:>6.1}")
}

/// Write 4 KiB, one dispatch, read them back.
fn round_trip(stand: &Stand) {
    let (a, b) = (stand.buffer(1024), stand.buffer(1024));
    let values: Vec<f32> = (0..1024).map(value).collect();
    let up = SegmentStep::Upload { upload: 0, slot: 0 };
    let down = SegmentStep::Download { slot: 1, bytes: 4096, read: 0 };
    let work = stand.prepare(vec![up, relu(1024, 0, 1), down]);
    let read = ReadCell::new();
    let binding = Binding {
        buffers: vec![a, b],
        uploads: vec![HostBytes::from_vec(values.clone())],
        reads: vec![read.clone()],
        ..Binding::default()
    };
    let times = stand.times(&work, &binding);
    let got = read.take().expect("it was read");
    let is_right = got.elements::<f32>().iter().zip(&values).all(|(got, x)| *got == x.max(0.0));
    let verdict = if is_right { "right" } else { "WRONG" };
    println!("  write 4 KiB, relu, read: {}  {verdict}", parts(times));
}

/// Bytes to the device and back: from memory that is touched, to memory that the device lends, and on into touched memory, at
/// once or piece by piece.
fn transfers(stand: &Stand, mib: usize) {
    let elements = mib << 18;
    let buffer = stand.buffer(elements);
    let values: Vec<f32> = (0..elements).map(value).collect();
    let bytes = HostBytes::from_vec(values.clone());
    let up = stand.prepare(vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
    let down = stand.prepare(vec![SegmentStep::Download { slot: 0, bytes: 4 * elements as u64, read: 0 }]);
    let upload = stand.times(
        &up,
        &Binding { buffers: vec![buffer.clone()], uploads: vec![bytes], reads: vec![], ..Binding::default() },
    );
    let cell = ReadCell::new();
    let wanted =
        Binding { buffers: vec![buffer.clone()], uploads: vec![], reads: vec![cell.clone()], ..Binding::default() };
    let read = stand.times(&down, &wanted);
    let mut is_right = cell.take().expect("it was read").elements::<f32>() == values;
    let mut touched = vec![-1.0f32; elements];
    let copied = walls(|| {
        stand.submit(&down, wanted.clone());
        stand.copier.copy(&cell.take().expect("it was read"), bytemuck::cast_slice_mut(&mut touched));
    });
    is_right &= touched == values;
    touched.fill(-1.0);
    let alone = walls(|| stand.copier.copy(bytemuck::cast_slice(&values), bytemuck::cast_slice_mut(&mut touched)));
    touched.fill(-1.0);
    let mut into = || stand.device.read_into(&buffer, bytemuck::cast_slice_mut(&mut touched), Stand::deadline());
    let straight = into().is_some().then(|| walls(|| into().expect("as before").expect("it is read")));
    is_right &= straight.is_none() || touched == values;
    let rate = |t: f64| format!("{:>6.2}", (mib << 20) as f64 / t / 1e9);
    println!(
        "  {mib:>3} MiB, GB/s: upload {}, read and lent {}, read and copied to touched memory {}, straight there {} (a copy on the \
         host {})  {}",
        rate(upload.wall),
        rate(read.wall),
        rate(copied),
        straight.map_or("     -".to_owned(), rate),
        rate(alone),
        if is_right { "right" } else { "WRONG" }
    );
}
