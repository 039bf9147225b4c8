//! One test of the suite, of any device.

use breakeven_device::Device;

use crate::Bench;

/// A test by its name.
pub type Check = (&'static str, fn(&dyn Device));

/// Runs an area, which is to run at least so many kernels: nothing passes by not running.
///
/// # Panics
/// At the first difference, and where it ran fewer.
pub fn area(name: &str, device: &dyn Device, least: u64, area: impl FnOnce(&mut Bench<'_>)) {
    let mut bench = Bench::new(device);
    area(&mut bench);
    let counts = bench.finish();
    println!("{name}: {counts}");
    assert!(counts.launches >= least, "{least} kernels were to run at least, but: {counts}");
}
