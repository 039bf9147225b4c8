//! Lists adapters, asks them the self-test, and measures what decides whether a GPU pays. Every result is checked before
//! its time is printed; each kernel keeps the device at work for a while first, since idle ones lower their clock.
//!
//! `cargo run --release -p breakeven-wgpu --example probe -- [--adapter N] [--small] [--webgpu] [--threads N]
//! [--only part-of-a-name] [--in-a-row]`

mod attention;
mod link;
mod products;
mod rows;
mod shared;
mod stand;
mod streams;

use std::sync::Arc;
use std::time::Instant;

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::{Backend, Copier, Device};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuOptions, self_test};

use stand::Stand;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let flag = |name: &str| args.iter().any(|a| a == name);
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let limits = if flag("--webgpu") { Limits::WebGpuDefault } else { Limits::Adapter };
    let threads = value("--threads").and_then(|threads| threads.parse().ok());
    let cpu = CpuDevice::new(CpuOptions { threads, ..CpuOptions::default() }).expect("the processor runs this");
    let copier = Copier::of(Arc::new(cpu));
    let start = Instant::now();
    let options = WgpuOptions { limits, copier: copier.clone(), ..WgpuOptions::default() };
    let backend = WgpuBackend::new(options.clone());
    println!("found in {:?}", start.elapsed());
    for (i, info) in backend.list().iter().enumerate() {
        let unusable = info.unusable.as_deref().unwrap_or("usable");
        println!(
            "{i}: {} ({:?}, {}, {}, {:?}) {unusable}",
            info.name, info.kind, info.backend, info.driver, info.address
        );
    }
    let Some(index) = value("--adapter").and_then(|i| i.parse().ok()) else { return };
    let start = Instant::now();
    let device = match backend.open_device(index) {
        Ok(device) => device,
        Err(e) => return println!("{e}"),
    };
    println!("opened in {:?}\n{:?}", start.elapsed(), device.caps());
    for verdict in self_test(&device) {
        println!("{}: {}", verdict.failure.as_deref().unwrap_or("ok"), verdict.name);
    }
    let only = value("--only").cloned().unwrap_or_default();
    let shrink = if flag("--small") { 64 } else { 1 };
    let stand = Stand { device, copier, shrink, only, in_a_row: flag("--in-a-row") };
    streams::all(&stand);
    rows::all(&stand);
    products::all(&stand);
    attention::all(&stand);
    link::all(&stand);
    if stand.wants("in place") {
        shared::all(index, &options, stand.shrink);
    }
    println!("{:?}\n{:?}", stand.device.counters(), stand.device.memory());
}
