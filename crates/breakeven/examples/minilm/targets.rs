//! Where the demo computes: on each device by hand, and where the engine places it.

use breakeven::{DeviceId, DeviceKind, DeviceReport, DeviceState, Engine, Tensor};

use crate::batch::{self, Batch};
use crate::failure::Failure;
use crate::model::Model;

/// A device, or automatic placement.
#[derive(Clone, Debug)]
pub struct Target {
    /// `auto`, or the device's short name.
    pub name: String,
    pub device: Option<DeviceId>,
    /// A GPU driver that computes on the CPU.
    pub is_software: bool,
}

impl Target {
    fn automatic() -> Target {
        Target { name: "auto".into(), device: None, is_software: false }
    }

    /// Every usable device, the CPU first, then automatic placement.
    pub fn all(engine: &Engine) -> Vec<Target> {
        let usable = engine.devices().into_iter().filter(|report| report.state == DeviceState::Ready);
        let device = |report: DeviceReport| Target {
            name: report.name,
            device: Some(report.id),
            is_software: report.info.kind == DeviceKind::Software,
        };
        usable.map(device).chain([Target::automatic()]).collect()
    }

    /// The one called `name`.
    pub fn named(targets: &[Target], name: &str) -> Result<Target, Failure> {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        let found = targets.iter().find(|target| target.name == name);
        let missing = || Failure::Input(format!("there is no device '{name}' here; there is {}", names.join(", ")));
        found.cloned().ok_or_else(missing)
    }

    /// The vectors of a batch, still to be computed, here.
    pub fn embed(&self, model: &Model, batch: &Batch) -> Tensor {
        let vectors = model.embed(batch);
        self.device.map_or(vectors.clone(), |device| vectors.on(device))
    }

    /// The vectors of all texts, in their order.
    pub fn embed_all<T: AsRef<[i64]>>(&self, model: &Model, texts: &[T]) -> breakeven::Result<Vec<Vec<f32>>> {
        let mut vectors = vec![Vec::new(); texts.len()];
        for group in batch::by_length(texts) {
            let tokens: Vec<&[i64]> = group.iter().map(|&index| texts[index].as_ref()).collect();
            let found = self.embed(model, &Batch::new(&tokens)).to_vec::<f32>()?;
            for (row, index) in found.chunks(found.len() / group.len()).zip(group) {
                vectors[index] = row.to_vec();
            }
        }
        Ok(vectors)
    }
}
