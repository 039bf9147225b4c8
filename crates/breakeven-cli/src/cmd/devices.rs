//! `breakeven devices`: what was found, and why something is not used.

use std::time::Duration;

use anyhow::Context;
use breakeven::{Deadline, DeviceReport, DeviceState, Engine, Graphics};
use serde_json::{Value, json};

/// Arguments of `devices`.
#[derive(Debug, clap::Args)]
pub struct Devices {
    /// Open and test software adapters too.
    #[arg(long)]
    software: bool,
    /// Look for GPUs through this interface alone: vulkan, metal, dx12 or gl.
    #[arg(long, value_parser = crate::graphics)]
    backend: Option<Graphics>,
    /// Hold GPUs to the limits that WebGPU guarantees.
    #[arg(long, value_parser = ["adapter", "webgpu"], default_value = "adapter")]
    limits: String,
    /// Seconds to wait for drivers.
    #[arg(long, default_value_t = 60)]
    deadline: u64,
}

impl Devices {
    /// Open everything and print it.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let builder = Engine::builder().software(self.software).webgpu_limits(self.limits == "webgpu");
        let engine = match self.backend {
            Some(graphics) => builder.graphics(graphics).build()?,
            None => builder.build()?,
        };
        let deadline = Deadline::after(Duration::from_secs(self.deadline));
        engine.ready(deadline).context("some drivers did not answer; the others can be used")?;
        if as_json {
            let devices: Vec<Value> = engine.devices().iter().map(object).collect();
            println!("{}", json!({ "devices": devices, "notes": engine.notes() }));
            return Ok(());
        }
        engine.devices().iter().for_each(|d| println!("{}", text(d)));
        engine.notes().iter().for_each(|n| println!("note: {n}"));
        Ok(())
    }
}

fn state(device: &DeviceReport) -> String {
    match &device.state {
        DeviceState::Ready => "ready".to_owned(),
        DeviceState::Suspect(why) => format!("suspect: {why}"),
        DeviceState::Reopening(why) => format!("being opened again: {why}"),
        DeviceState::Lost(why) => format!("lost: {why}"),
        DeviceState::Quarantined(why) => format!("quarantined: {why}"),
        DeviceState::Unusable(why) => format!("not used: {why}"),
    }
}

fn text(device: &DeviceReport) -> String {
    let info = &device.info;
    let address = info.address.as_ref().map_or(String::new(), |a| format!(", at {a}"));
    let (name, kind) = (&device.name, info.kind);
    let banned = device.quarantined.iter().fold(String::new(), |all, kernel| {
        all + "\n         not run there, because it was lost with it twice: " + kernel
    });
    format!(
        "{name:<8} {} ({kind:?}, {}, {}{address})\n         {}{banned}",
        info.name,
        info.backend,
        info.driver,
        state(device)
    )
}

fn object(device: &DeviceReport) -> Value {
    let info = &device.info;
    json!({
        "id": device.id.0,
        "name": device.name,
        "device": info.name,
        "kind": format!("{:?}", info.kind),
        "backend": info.backend,
        "driver": info.driver,
        "address": info.address,
        "state": state(device),
        "reopened": device.reopened,
        "quarantined_kernels": device.quarantined,
    })
}
