//! Devices as the examples name them.

use std::time::Duration;

use anyhow::bail;
use breakeven::{Deadline, DeviceId, Engine};

/// One engine for everything; GPUs only where one is named.
pub fn engine(names: &[String]) -> anyhow::Result<Engine> {
    let gpus = names.iter().any(|name| name != "cpu");
    let engine = Engine::builder().gpus(gpus).software(true).build()?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    Ok(engine)
}

/// The device called `name`.
pub fn id(engine: &Engine, name: &str) -> anyhow::Result<DeviceId> {
    let devices = engine.devices();
    match devices.iter().find(|device| device.name == name) {
        Some(device) => Ok(device.id),
        None => bail!("there is no device {name}, but {:?}", devices.iter().map(|d| &d.name).collect::<Vec<_>>()),
    }
}

/// A device as the head of its column: drivers tell their version, which would change a page without reason.
pub fn describe(engine: &Engine, name: &str) -> String {
    let devices = engine.devices();
    let device = devices.iter().find(|device| device.name == name);
    match device {
        Some(_) if name == "cpu" => "CPU".to_owned(),
        Some(device) if device.info.name.contains("llvmpipe") => "lavapipe".to_owned(),
        Some(device) if device.info.name.contains("SwiftShader") => "SwiftShader".to_owned(),
        Some(device) => device.info.name.clone(),
        None => name.to_owned(),
    }
}
