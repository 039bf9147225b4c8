//! Engines: devices, what is known of them, and the plans made for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Deadline, Device, DeviceInfo, Memory};
use breakeven_plan::{DeviceId, Profile, Prospect};
use breakeven_wgpu::{KeptCounters, KeptPipelines};

use crate::builder::EngineBuilder;
use crate::cache::Plans;
use crate::devices::{DeviceState, Devices};
use crate::profile_file::ProfileFile;
use crate::{Error, Health, Precision, Result};

/// Devices and what was measured of them. No global state: several engines in one process do not know of each other,
/// and one engine may be shared by threads. Clones are the same engine.
///
/// An engine that is dropped leaves the drivers that it was in. Nothing in a `static` is dropped when a process ends, and some graphics
/// drivers crash a process that ends while one of its threads is in them: call [`Engine::close`] at the end of `main` there.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub devices: Arc<Devices>,
    pub plans: Arc<Plans>,
    pub options: EngineOptions,
    /// Bytes that computing on the CPU may hold at once.
    pub memory_limit: Option<u64>,
    /// Where what was measured is kept.
    pub file: Option<ProfileFile>,
    /// Where what drivers compiled is kept.
    pub kept: Option<KeptPipelines>,
    /// From which work on GPUs are looked for.
    pub prospect: Prospect,
}

/// A process that ends while a thread of it is in a graphics driver crashes.
impl Drop for Shared {
    fn drop(&mut self) {
        self.devices.leave();
    }
}

/// What an engine was told when it was built.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// How long a wait for a device may take where the caller names no deadline; where nothing is said, 20 times what was predicted,
    /// and 10 seconds at least.
    pub deadline: Option<Duration>,
    /// Bytes that may be held to compute lost values again; a value beyond that is not recovered.
    pub recovery_bytes: u64,
    /// Whether operations share kernels. Off is for finding faults.
    pub fuse: bool,
    /// Whether work that is repeated is tried on another device now and then, and goes where it was seen to be faster.
    pub learn: bool,
    /// How exactly matrix products are computed, where the call says nothing.
    pub precision: Precision,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            deadline: None,
            recovery_bytes: 256 << 20,
            fuse: true,
            learn: true,
            precision: Precision::Highest,
        }
    }
}

/// One device of an engine.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// Its number in this engine: 0 is the CPU.
    pub id: DeviceId,
    /// Short name that is unique in this engine: `cpu`, `wgpu:0`.
    pub name: String,
    /// What it is.
    pub info: DeviceInfo,
    /// How it stands.
    pub state: DeviceState,
    /// How well it does; `None` where it was found and never used.
    pub health: Option<Health>,
    /// Memory it holds and what it may hold, and what is in flight there, when it is open.
    pub memory: Option<Memory>,
    /// What it did since it was opened and what it keeps, in terms of its own: `("pipelines", 12)`. [`Device::pool_classes`] and
    /// [`Device::staging_classes`] of [`Engine::device`] tell of its memory by size.
    pub counts: Vec<(&'static str, u64)>,
    /// How often it was lost and opened again.
    pub reopened: usize,
    /// Kernels that lost it twice, in words. They are not run there again until [`Engine::readmit`].
    pub quarantined: Vec<String>,
}

impl Engine {
    /// The CPU at once. GPUs are looked for when one is first needed: when [`Engine::ready`] or [`Engine::devices`] is called,
    /// when one is named, or when work is so large that one could gain by it. They are found, tested and measured in the
    /// background and used from then on; a program of small work never loads a graphics driver.
    pub fn detect() -> Result<Engine> {
        Engine::builder().build()
    }

    /// An engine with other devices, limits or files.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Look for GPUs, and wait until every device is open, tested and measured, or found unusable, until none is being opened again or
    /// waited for after a failure, and until nothing is being compiled for one: work that was met before runs where it was placed from
    /// then on, and not on the CPU until a driver has compiled it.
    pub fn ready(&self, deadline: Deadline) -> Result<()> {
        let source = |waited| breakeven_device::DeviceError::Timeout { waited, pending: 0 };
        let late = |waited| Error::Device {
            device: "what is looked for, opened or compiled".to_owned(),
            source: source(waited),
        };
        self.0.devices.wait(deadline).map_err(late)
    }

    /// Ends what this engine does by itself: looking for GPUs, measuring them, waiting for those that were late, and opening those again
    /// that were lost. When it returns, none of its threads is in a driver, as when the engine is dropped; false where a driver did not let one go within five seconds.
    /// The engine goes on with the devices that it has; what has still to be compiled for them is left to the CPU, and what names a device
    /// is compiled by the call that asks for it.
    ///
    /// ```
    /// use std::sync::LazyLock;
    ///
    /// use breakeven::{Engine, Result};
    ///
    /// static ENGINE: LazyLock<Result<Engine>> = LazyLock::new(Engine::detect);
    ///
    /// let engine = ENGINE.as_ref().expect("there is a CPU");
    /// assert_eq!((engine.tensor(&[1.0, 2.0], [2]) + 1.0).to_vec::<f32>().unwrap(), [2.0, 3.0]);
    /// engine.close();
    /// ```
    pub fn close(&self) -> bool {
        self.0.devices.leave()
    }

    /// All devices that are known by now, usable or not, and why not. GPUs are looked for from now on.
    pub fn devices(&self) -> Vec<DeviceReport> {
        self.0.devices.look();
        self.monitor()
    }

    /// A device itself, if it is open: for tests of rows and operations of your own.
    pub fn device(&self, id: DeviceId) -> Option<Arc<dyn Device>> {
        self.look_for(id);
        self.0.devices.snapshot().device(id)
    }

    /// What went otherwise than one would expect, in words: no Vulkan library, a profile that was ignored.
    pub fn notes(&self) -> Vec<String> {
        let kept = self.0.kept.iter().flat_map(KeptPipelines::notes);
        self.0.devices.notes().into_iter().chain(kept).collect()
    }

    /// What became of the pipelines that drivers compiled in earlier processes, and of those of this one: they are kept in the folder
    /// of the profile, for each adapter with its driver, and written when devices have been measured and when they are closed. None
    /// where nothing is kept.
    pub fn kept_pipelines(&self) -> Option<KeptCounters> {
        self.0.kept.as_ref().map(KeptPipelines::counters)
    }

    /// Gives memory back that devices keep for later and that was not used for `age`. They do so by themselves with what was not used for a
    /// minute, while they are used; this is for a program that computes nothing for a while.
    pub fn trim(&self, age: Duration) {
        let devices = self.0.devices.snapshot();
        devices.ids().filter_map(|id| devices.device(id)).for_each(|device| device.trim(age));
    }

    /// How many plans were made so far: work whose graph was met before, from the same places, finds its plan and adds none.
    pub fn plans_made(&self) -> u64 {
        self.0.plans.made()
    }

    /// What has been measured.
    pub fn profile(&self) -> Profile {
        self.0.devices.profile()
    }

    /// A deadline as this engine sets it where the caller names none, for work of which nothing was predicted. Handing it in makes it
    /// the caller's own.
    pub fn deadline(&self) -> Deadline {
        self.patience().deadline(None)
    }

    /// Bytes that computing on the CPU may hold at once, where the builder or the system says so.
    pub fn memory_limit(&self) -> Option<u64> {
        self.0.memory_limit
    }

    /// Somebody named this device: unless it is the CPU, GPUs are looked for from now on.
    pub(crate) fn look_for(&self, device: DeviceId) {
        if device != DeviceId::HOST {
            self.0.devices.look();
        }
    }

    /// True for clones of one engine.
    pub fn is_same(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.0.devices.names()).finish()
    }
}
