//! What machine this is, and the most that its devices reach in the same run: rooflines are drawn by that.

use std::num::NonZero;
use std::time::Duration;

use breakeven::{DType, Deadline, Device, DeviceKind, DeviceReport, Engine, HostBytes};
use breakeven_study::{Ceiling, Environment, Mode, StudyDevice};
use sysinfo::System;

use super::child::Say;
use super::clock::Clock;
use super::link::Link;
use super::places::{Place, Sleep, places};
use super::subject::{Operands, Subject};
use super::task::{Line, Look};
use super::{Result, operation};

/// Rows and columns of the product that tells what a device computes at most, and of one for drivers that compute on the processor.
const SQUARE: usize = 1024;
const SMALL_SQUARE: usize = 256;
/// Elements of the operands that tell how fast its memory is: more than its caches hold.
const STREAM: usize = 16 << 20;
/// Bytes that tell how fast the way to it is.
const COPY: usize = 64 << 20;
/// How long each of them is repeated; the fastest counts.
const TIME: Duration = Duration::from_millis(600);

/// Says what machine this is and, if asked, what its devices reach.
pub fn look(look: &Look, engine: &Engine, clock: &dyn Clock, say: Say<'_>) -> Result<()> {
    let places: Vec<Place> = places(engine, &look.devices)?.into_iter().filter(|p| p.device.is_some()).collect();
    let took_part = |report: &DeviceReport| places.iter().any(|place| place.name == report.name);
    let devices: Vec<DeviceReport> = engine.devices().into_iter().filter(took_part).collect();
    say(Line::Machine { environment: environment(&devices) })?;
    for place in places.iter().filter(|_| look.ceilings) {
        match ceiling(engine, place, clock) {
            Ok(ceiling) => say(Line::Ceiling { ceiling })?,
            Err(error) => say(Line::Note { text: format!("what {} reaches is not known: {error}", place.name) })?,
        }
    }
    Ok(())
}

/// Of all that must be the same before two runs may be compared, in hexadecimal (FNV-1a). The version of the program is not
/// part of it: to compare versions is what runs are for.
pub fn fingerprint(environment: &Environment) -> String {
    let Environment { cpu, cores, threads, isa, os, kernel, governor, devices, .. } = environment;
    let devices: Vec<String> = devices.iter().map(|d| format!("{} {} {}", d.device, d.backend, d.driver)).collect();
    let text = format!("{cpu}|{cores}|{threads}|{isa}|{os}|{kernel}|{governor:?}|{}", devices.join("|"));
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    format!("{:016x}", text.bytes().fold(0xCBF2_9CE4_8422_2325, mix))
}

fn environment(devices: &[DeviceReport]) -> Environment {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
    // The CPU's driver says both: "avx512, 16 threads".
    let host = devices.iter().find(|d| d.info.kind == DeviceKind::Cpu).map_or("", |d| d.info.driver.as_str());
    let (isa, threads) = host.split_once(", ").unwrap_or((host, ""));
    let threads = threads.split(' ').next().and_then(|n| n.parse().ok());
    Environment {
        cpu: processor().unwrap_or_default(),
        cores,
        threads: threads.unwrap_or(cores),
        isa: isa.to_owned(),
        memory_bytes: memory().unwrap_or(0),
        os: System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
        kernel: System::kernel_version().unwrap_or_default(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        is_virtual: std::fs::read_to_string("/proc/cpuinfo").ok().map(|text| text.contains(" hypervisor")),
        devices: devices.iter().map(device).collect(),
    }
}

fn processor() -> Option<String> {
    let mut system = System::new().ok()?;
    system.refresh_cpu_list(sysinfo::CpuRefreshKind::nothing());
    Some(system.cpus().first()?.brand().trim().to_owned())
}

fn memory() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory();
    Some(system.total_memory())
}

/// The first line of a small file of the system, where there is one.
fn line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn device(report: &DeviceReport) -> StudyDevice {
    let info = &report.info;
    let kind = match info.kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::IntegratedGpu => "integrated",
        DeviceKind::Software => "software",
        DeviceKind::Simulated => "simulated",
        DeviceKind::DiscreteGpu | DeviceKind::Other => "discrete",
    };
    StudyDevice {
        name: report.name.clone(),
        device: info.name.clone(),
        backend: info.backend.clone(),
        driver: info.driver.clone(),
        kind: kind.to_owned(),
    }
}

fn ceiling(engine: &Engine, place: &Place, clock: &dyn Clock) -> Result<Ceiling> {
    let is_software = place.sleep == Sleep::None;
    let square = if is_software { SMALL_SQUARE } else { SQUARE };
    let seconds = |name: &str, size: usize| best(engine, place, name, size, clock);
    let product = seconds("matmul", square)?;
    let (square, stream) = (square as f64, STREAM as f64);
    // Two operands read and one result written.
    let addition = seconds("add", STREAM)?;
    let copies = place.device.and_then(|id| engine.device(id)).filter(|_| place.name != "cpu");
    let copies = copies.map(|device| copy(&device, clock)).transpose()?;
    Ok(Ceiling {
        device: place.name.clone(),
        flops: Some(2.0 * square.powi(3) / product),
        bytes_per_s: Some(12.0 * stream / addition),
        upload_bytes_per_s: copies.map(|c| c.0),
        read_bytes_per_s: copies.map(|c| c.1),
    })
}

/// Seconds of the fastest call on resident operands.
fn best(engine: &Engine, place: &Place, name: &str, size: usize, clock: &dyn Clock) -> Result<f64> {
    let operation = operation::find(name).expect("an operation of the study");
    let operands = Operands::new(operation, size, DType::F32, 1);
    let mut subject = Subject::new(engine, operands, Duration::from_secs(20))?;
    let (begun, mut best) = (clock.now(), f64::MAX);
    let mut calls = 0;
    // Three calls, unless one takes so long that more would say nothing new.
    while calls == 0 || clock.since(begun) < TIME || (calls < 3 && clock.since(begun) < 5 * TIME) {
        best = best.min(subject.call(Mode::Resident, place.device, clock)?.wall_ns as f64 * 1e-9);
        calls += 1;
    }
    Ok(best)
}

/// Bytes a second to the device and back, fastest of some copies between it and memory that was touched before.
fn copy(device: &std::sync::Arc<dyn Device>, clock: &dyn Clock) -> Result<(f64, f64)> {
    let bytes = HostBytes::from_vec(vec![1u8; COPY]);
    let mut link = Link::new(device, vec![bytes], COPY as u64)?;
    let (mut up, mut down) = (f64::MAX, f64::MAX);
    for _ in 0..8 {
        let deadline = Deadline::after(Duration::from_secs(20));
        up = up.min(link.upload(clock, deadline)?.as_secs_f64());
        down = down.min(link.read(clock, deadline)?.as_secs_f64());
    }
    Ok((COPY as f64 / up, COPY as f64 / down))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// B10: what makes another machine of one that is called the same.
    #[test]
    fn b10_another_clock_driver_or_system_is_another_machine() {
        let gpu = StudyDevice {
            name: "wgpu:0".to_owned(),
            device: "NVIDIA H200".to_owned(),
            backend: "wgpu/vulkan".to_owned(),
            driver: "580.1".to_owned(),
            kind: "discrete".to_owned(),
        };
        let here = Environment { cores: 2, threads: 2, devices: vec![gpu], ..Environment::default() };
        let changed = |change: fn(&mut Environment)| {
            let mut there = here.clone();
            change(&mut there);
            there
        };
        let others = [
            changed(|there| there.governor = Some("powersave".to_owned())),
            changed(|there| there.devices[0].driver = "591.0".to_owned()),
            changed(|there| there.devices[0].device = "NVIDIA H100".to_owned()),
            changed(|there| there.devices.clear()),
            changed(|there| there.kernel = "7.0".to_owned()),
            changed(|there| there.cpu = "another".to_owned()),
            changed(|there| there.isa = "avx512".to_owned()),
            changed(|there| there.cores = 4),
            changed(|there| there.threads = 1),
        ];
        let prints: BTreeSet<String> = others.iter().chain([&here]).map(fingerprint).collect();
        assert_eq!(prints.len(), others.len() + 1, "each of them is told apart");
        assert_eq!(fingerprint(&here), fingerprint(&here.clone()));
    }
}
