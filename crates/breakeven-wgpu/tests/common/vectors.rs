//! Steps of segments over vectors of one length.

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Deadline, Device, Prepared, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Map, Row};
use breakeven_wgpu::WgpuDevice;

/// Of f32, in each vector.
pub const ELEMENTS: usize = 100_003;
pub const BYTES: u64 = 4 * ELEMENTS as u64;

/// Whole numbers, so that the sum of two is exact.
pub fn numbers(seed: usize) -> Vec<f32> {
    (0..ELEMENTS).map(|i| ((i * 7 + seed * 13) % 1000) as f32).collect()
}

pub fn upload(upload: usize, slot: usize) -> SegmentStep {
    SegmentStep::Upload { upload, slot }
}

pub fn download(read: usize, slot: usize) -> SegmentStep {
    SegmentStep::Download { slot, bytes: BYTES, read }
}

pub fn add(left: usize, right: usize, to: usize) -> SegmentStep {
    let row = Expr::row(Row::named("add").unwrap(), DType::F32);
    let kernel = Kernel::Map(Map::dense(row, vec![], ELEMENTS));
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: vec![left, right], outputs: vec![to], workspace: None }))
}

pub fn prepare(device: &WgpuDevice, steps: Vec<SegmentStep>) -> Arc<dyn Prepared> {
    device.prepare(&Segment { steps }).unwrap()
}

/// Later than anything here ends.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(5))
}
