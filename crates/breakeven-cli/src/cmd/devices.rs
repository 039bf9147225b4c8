//! `breakeven devices`: what was found, and why something is not used.

use std::time::Duration;

use anyhow::Context;
use breakeven::{Deadline, Device, DeviceId, DeviceReport, DeviceState, Engine, Graphics, Health, Memory, PoolClass};
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
        let all: Vec<Found> = engine.devices().into_iter().map(|report| self.found(&engine, report)).collect();
        if as_json {
            let devices: Vec<Value> = all.iter().map(object).collect();
            println!("{}", json!({ "devices": devices, "notes": engine.notes() }));
            return Ok(());
        }
        for found in &all {
            println!("{}", text(found));
        }
        engine.notes().iter().for_each(|n| println!("note: {n}"));
        Ok(())
    }

    fn found(&self, engine: &Engine, report: DeviceReport) -> Found {
        let device = engine.device(report.id).filter(|_| report.state == DeviceState::Ready);
        let asked = if report.id == DeviceId::HOST { "host" } else { &self.limits };
        let pools = device.as_deref().map(pools);
        Found { limits: device.map(|device| Limits::of(&*device, asked)), pools, report }
    }
}

/// A device, and what it can hold and holds where it is open.
struct Found {
    report: DeviceReport,
    limits: Option<Limits>,
    pools: Option<Value>,
}

/// Memory that it keeps for who asks next, by size class, and what copies to and from it pass through.
fn pools(device: &dyn Device) -> Value {
    let [upload, read] = device.staging_classes();
    let one = |class: &PoolClass| {
        let PoolClass { bytes, hits, misses, live, waiting } = class;
        json!({"bytes": bytes, "hits": hits, "misses": misses, "live": live, "waiting": waiting})
    };
    let all = |classes: Vec<PoolClass>| classes.iter().map(one).collect::<Value>();
    json!({"memory": all(device.pool_classes()), "upload": all(upload), "read": all(read)})
}

/// What was asked for and what was granted.
struct Limits {
    /// `adapter` for all that the adapter has, `webgpu` for what WebGPU guarantees, `host` for the host's memory.
    asked: String,
    /// Bytes that may be held at once, where that is known.
    memory_bytes: Option<u64>,
    max_buffer_bytes: u64,
    max_binding_bytes: u64,
    max_bindings: u64,
}

impl Limits {
    fn of(device: &dyn Device, asked: &str) -> Limits {
        let (caps, budget) = (device.caps(), device.memory().budget);
        Limits {
            asked: asked.to_owned(),
            memory_bytes: budget.or(caps.memory_bytes),
            max_buffer_bytes: caps.max_buffer_bytes,
            max_binding_bytes: caps.max_binding_bytes,
            max_bindings: caps.max_bindings as u64,
        }
    }

    fn object(&self) -> Value {
        if self.asked == "host" {
            return json!({ "asked": self.asked, "memory_bytes": self.memory_bytes });
        }
        json!({
            "asked": self.asked,
            "memory_bytes": self.memory_bytes,
            "max_buffer_bytes": self.max_buffer_bytes,
            "max_binding_bytes": self.max_binding_bytes,
            "max_bindings": self.max_bindings,
        })
    }

    fn text(&self) -> String {
        if self.asked == "host" {
            return self.memory_bytes.map_or_else(String::new, |bytes| format!("\n         memory: {}", size(bytes)));
        }
        format!(
            "\n         limits ({}): buffers up to {}, of which a kernel sees {} of up to {}",
            self.asked,
            size(self.max_buffer_bytes),
            self.max_bindings,
            size(self.max_binding_bytes)
        )
    }
}

/// "2.0 GiB".
fn size(bytes: u64) -> String {
    let (unit, name) = if bytes >= 1 << 30 { (1u64 << 30, "GiB") } else { (1 << 20, "MiB") };
    format!("{:.1} {name}", bytes as f64 / unit as f64)
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

/// "healthy, 0.5 GiB of 140.0 GiB in use, nothing in flight".
fn health(device: &DeviceReport) -> String {
    let Some(health) = &device.health else { return String::new() };
    let why = health.reason().map_or(String::new(), |why| format!(" ({why})"));
    let memory = device.memory.as_ref().map(in_use).unwrap_or_default();
    format!("\n         {}{why}{memory}", health.name())
}

fn in_use(memory: &Memory) -> String {
    let budget = memory.budget.map_or(String::new(), |budget| format!(" of {}", size(budget)));
    let in_flight = match memory.pending {
        0 => "nothing in flight".to_owned(),
        pending => format!("{pending} submissions in flight with {}", size(memory.pending_bytes)),
    };
    format!(", {}{budget} in use, {in_flight}", size(memory.used_bytes()))
}

/// What a device did so far, by name.
pub fn counts(device: &DeviceReport) -> Value {
    device.counts.iter().map(|(name, count)| ((*name).to_owned(), Value::from(*count))).collect()
}

fn memory(memory: &Memory) -> Value {
    json!({
        "used_bytes": memory.used_bytes(),
        "budget_bytes": memory.budget,
        "live_bytes": memory.pool.live_bytes,
        "pooled_bytes": memory.pool.pooled_bytes,
        "in_flight_submissions": memory.pending,
        "in_flight_bytes": memory.pending_bytes,
    })
}

fn text(Found { report: device, limits, .. }: &Found) -> String {
    let info = &device.info;
    let limits = limits.as_ref().map(Limits::text).unwrap_or_default();
    let address = info.address.as_ref().map_or(String::new(), |a| format!(", at {a}"));
    let (name, kind) = (&device.name, info.kind);
    let banned = device.quarantined.iter().fold(String::new(), |all, kernel| {
        all + "\n         not run there, because it was lost with it twice: " + kernel
    });
    format!(
        "{name:<8} {} ({kind:?}, {}, {}{address})\n         {}{}{limits}{banned}",
        info.name,
        info.backend,
        info.driver,
        state(device),
        health(device)
    )
}

fn object(Found { report: device, limits, pools }: &Found) -> Value {
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
        "health": device.health.as_ref().map(Health::name),
        "health_reason": device.health.as_ref().and_then(Health::reason),
        "memory": device.memory.as_ref().map(memory),
        "limits": limits.as_ref().map(Limits::object),
        "counts": counts(device),
        "pools": pools,
        "reopened": device.reopened,
        "quarantined_kernels": device.quarantined,
    })
}
