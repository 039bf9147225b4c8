//! Area L: sizes that drivers limit.

use breakeven_device::{Device, DeviceError, DeviceKind, MemoryKind};
use breakeven_ir::{DType, Layout, RowWise, Spec};

use super::On;

/// A launch of more groups than one axis of a grid has.
pub fn l01_more_than_65535_groups(device: &dyn Device) {
    let on = On(device);
    if on.is_simulated() {
        return;
    }
    for (n, last) in [(4_194_241, 0.0), (16_776_961, 460.0)] {
        let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 - 500.0).collect();
        let got = on.map("relu", &[], &[&x]);
        assert_eq!(got[n - 1], last);
        let wrong = (0..n).find(|&i| got[i] != x[i].max(0.0));
        assert_eq!(wrong, None, "relu of {n}");
    }
    let batches = 65_537;
    let (a, b) = (vec![2.0; 4 * batches], vec![3.0; 4 * batches]);
    let pairs = || Layout::dense([batches, 2, 2]);
    assert!(on.matmul((&a, pairs()), (&b, pairs())).iter().all(|&x| x == 12.0));
    let rows: Vec<f32> = (0..batches * 2).map(|i| if i % 2 == 0 { 0.0 } else { f32::NEG_INFINITY }).collect();
    let got = on.rows(RowWise::Softmax, &rows, 2);
    assert!(got.chunks(2).all(|row| row == [1.0, 0.0]));
}

/// A device is opened with what its adapter offers, not with defaults.
pub fn l04_the_adapters_own_limits(device: &dyn Device) {
    const DEFAULT: u64 = 256 << 20;
    if On(device).is_cpu() || device.caps().max_buffer_bytes <= DEFAULT {
        return;
    }
    let buffer = device.alloc(300 << 20, MemoryKind::Resident).unwrap_or_else(|e| panic!("300 MiB: {e}"));
    assert_eq!(buffer.bytes(), 300 << 20);
}

/// Bytes are counted in 64 bits, and what does not fit is a typed error.
pub fn l05_sizes_past_4_gib(device: &dyn Device) {
    let bytes = Spec::new(DType::F32, [(1 << 30) + 1]).bytes();
    assert_eq!(bytes, 4_294_967_300);
    if device.info().kind != DeviceKind::Cpu && device.caps().max_buffer_bytes < bytes {
        let error = device.alloc(bytes, MemoryKind::Resident).expect_err("it is too large");
        assert!(matches!(error, DeviceError::OutOfMemory { wanted, .. } if wanted == bytes), "{error}");
    }
}
