//! The devices that cells are measured on, by their names.

use breakeven::{DeviceId, DeviceKind, DeviceReport, DeviceState, Engine};
use breakeven_study::{AUTOMATIC, SCALAR};

use super::task::Effort;
use super::{Error, Result};

/// Where a cell runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name in cells: "cpu", "vulkan:0", "auto".
    pub name: String,
    /// The device that is forced; `None` leaves it to the engine.
    pub device: Option<DeviceId>,
    /// How much it is warmed up at the begin of a turn.
    pub sleep: Sleep,
}

/// How far a device goes to sleep while others have their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sleep {
    /// Not at all, or it does not matter: what is simulated, or slow anyway.
    None,
    /// Threads sleep: the CPU.
    Light,
    /// Clocks are lowered: a GPU.
    Deep,
}

/// The devices of these names; all that are ready, and the engine's own choice, when there are none.
pub fn places(engine: &Engine, names: &[String]) -> Result<Vec<Place>> {
    if !names.is_empty() {
        return asked(engine, names);
    }
    let ready = engine.devices().into_iter().filter(|d| d.state == DeviceState::Ready);
    let mut places: Vec<Place> = ready.map(|report| place(&report)).collect();
    if places.len() > 1 {
        // Work that the engine places is where it sleeps deepest: on no driver made of software, which it never chooses.
        let deepest = places.iter().map(|place| place.sleep).max().expect("more than one");
        places.push(automatic(deepest));
    }
    Ok(places)
}

/// Whether places of these names are others than the CPU: looking at devices loads drivers, which a program of small work on the CPU does not.
pub fn needs_look(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| !["cpu", SCALAR].contains(&name.as_str()))
}

/// Whether a device is as it was: how often it was opened again, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    reopened: usize,
    /// Why it is not used now.
    pub problem: Option<String>,
}

/// A plain loop on one thread, which is no device.
pub fn scalar() -> Place {
    Place { name: SCALAR.to_owned(), device: None, sleep: Sleep::Light }
}

impl Place {
    /// Whether it is a plain loop.
    pub fn is_scalar(&self) -> bool {
        self.name == SCALAR
    }

    /// Milliseconds of untimed work before the samples of a turn. The CPU is awake sooner than a GPU, and rounds that cost less are more rounds.
    pub fn warm_up_ms(&self, effort: &Effort) -> u64 {
        match self.sleep {
            Sleep::None => 0,
            Sleep::Light => effort.warm_up_ms / 4,
            Sleep::Deep => effort.warm_up_ms,
        }
    }

    /// How its device stands; none where the engine chooses.
    pub fn health(&self, engine: &Engine) -> Option<Health> {
        let device = self.device.filter(|device| *device != DeviceId::HOST)?;
        let report = engine.devices().into_iter().find(|report| report.id == device)?;
        Some(Health { reopened: report.reopened, problem: report.state.problem().map(str::to_owned) })
    }
}

/// Whether a device beside the CPU is named, which a program that names it waits for.
pub fn names_far(names: &[String]) -> bool {
    names.iter().any(|name| !["cpu", AUTOMATIC, SCALAR].contains(&name.as_str()))
}

fn asked(engine: &Engine, names: &[String]) -> Result<Vec<Place>> {
    let reports = if names_far(names) { engine.devices() } else { Vec::new() };
    let find = |name: &String| match name.as_str() {
        AUTOMATIC => Ok(automatic(Sleep::Deep)),
        SCALAR => Ok(scalar()),
        "cpu" => Ok(Place { name: name.clone(), device: Some(DeviceId::HOST), sleep: Sleep::Light }),
        _ => reports.iter().find(|r| r.name == *name).map(place).ok_or_else(|| Error::device(name, &reports)),
    };
    names.iter().map(find).collect()
}

fn automatic(sleep: Sleep) -> Place {
    Place { name: AUTOMATIC.to_owned(), device: None, sleep }
}

fn place(report: &DeviceReport) -> Place {
    let sleep = match report.info.kind {
        DeviceKind::Software | DeviceKind::Simulated => Sleep::None,
        DeviceKind::Cpu => Sleep::Light,
        _ => Sleep::Deep,
    };
    Place { name: report.name.clone(), device: Some(report.id), sleep }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_alone_needs_no_driver() {
        let check = |names: &[&str], wanted| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(needs_look(&names), wanted, "{names:?}");
        };
        check(&["cpu"], false);
        check(&["cpu", "scalar"], false);
        check(&["cpu", "auto"], true);
        check(&["wgpu:0"], true);
        check(&[], true);
        let named = |names: &[&str]| names_far(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert!(named(&["auto", "wgpu:0"]) && !named(&["cpu", "auto", "scalar"]), "auto may stay on the CPU");
    }
}
