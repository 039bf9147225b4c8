//! Building engines.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::{Backend, Device};
use breakeven_plan::{DeviceProfile, Profile, Prospect};
use breakeven_wgpu::KeptPipelines;
use etcetera::{BaseStrategy, choose_base_strategy};

use crate::cache::Plans;
use crate::calibrate;
use crate::devices::{Devices, Entry};
use crate::engine::{EngineOptions, Shared};
use crate::profile_file::ProfileFile;
use crate::search::Search;
use crate::settings::{Cache, Settings};
use crate::{Engine, Error, Graphics, Precision, Result};

/// Says how an engine is to be.
#[derive(Default)]
pub struct EngineBuilder {
    options: EngineOptions,
    threads: Option<usize>,
    memory_bytes: Option<u64>,
    no_gpus: bool,
    software: bool,
    graphics: Option<Graphics>,
    webgpu_limits: bool,
    devices: Vec<(Arc<dyn Device>, Option<DeviceProfile>)>,
    backends: Vec<Arc<dyn Backend>>,
    profile: Option<Profile>,
    cpu_profile: Option<DeviceProfile>,
    cache: Cache,
}

impl EngineBuilder {
    /// Take over everything that the settings say.
    ///
    /// ```no_run
    /// use breakeven::{Engine, Settings};
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let engine = Engine::builder().settings(Settings::from_env()?).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn settings(mut self, settings: Settings) -> EngineBuilder {
        let Settings { cache, gpus, software, graphics, threads, deadline, precision, learn, debug } = settings;
        (self.cache, self.no_gpus, self.software) = (cache, !gpus, software);
        self.graphics = graphics;
        self.threads = threads.map(NonZeroUsize::get);
        self.options.deadline = deadline;
        (self.options.fuse, self.options.precision, self.options.learn) = (!debug, precision, learn);
        self
    }

    /// Look for GPUs once one is needed (the default) or never.
    pub fn gpus(mut self, yes: bool) -> EngineBuilder {
        self.no_gpus = !yes;
        self
    }

    /// Open software adapters too. They are for tests and are never chosen automatically.
    pub fn software(mut self, yes: bool) -> EngineBuilder {
        self.software = yes;
        self
    }

    /// Look for GPUs through this interface alone. Where none is named, all are asked but OpenGL, and that where the others show no
    /// adapter.
    pub fn graphics(mut self, graphics: Graphics) -> EngineBuilder {
        self.graphics = Some(graphics);
        self
    }

    /// Hold GPUs to the limits that WebGPU guarantees.
    pub fn webgpu_limits(mut self, yes: bool) -> EngineBuilder {
        self.webgpu_limits = yes;
        self
    }

    /// Whether repeated work is tried on another device now and then, and goes where it was seen to be faster (the default). It is tried
    /// only where the prediction is near, for one percent of the time, and in calls with a deadline only where half of what is left of it
    /// is plenty. Where results are left where they were computed, a trial's are not used: one call then takes up to eleven runs more.
    /// While a GPU's driver compiles what a call needs, the CPU serves. Numbers that are others at every call become inputs of one plan.
    ///
    /// Results of two devices may differ in their last bits; where the same call must give the same bits each time, this is switched
    /// off, the work pinned, or its plan frozen.
    pub fn learn(mut self, yes: bool) -> EngineBuilder {
        self.options.learn = yes;
        self
    }

    /// Threads of the CPU that compute; all cores else. Copies to other devices have up to half as many of their own, and four where there are so many.
    pub fn threads(mut self, threads: usize) -> EngineBuilder {
        self.threads = Some(threads);
        self
    }

    /// Bytes that computing on the CPU may hold at once; all of the machine's memory else. What needs more is an error: with
    /// a limit, a model of unknown origin cannot take the machine down.
    pub fn memory_limit(mut self, bytes: u64) -> EngineBuilder {
        self.memory_bytes = Some(bytes);
        self
    }

    /// One more device, after the CPU and before any GPU that is found. Without a profile that knows it, it is used only
    /// where it is named.
    pub fn device(mut self, device: Arc<dyn Device>) -> EngineBuilder {
        self.devices.push((device, None));
        self
    }

    /// One more device, with what was measured of it.
    pub fn measured_device(mut self, device: Arc<dyn Device>, profile: DeviceProfile) -> EngineBuilder {
        self.devices.push((device, Some(profile)));
        self
    }

    /// One more driver, whose devices are found, tested, measured and opened again after a loss as GPUs are, and before them.
    pub fn backend(mut self, backend: Arc<dyn Backend>) -> EngineBuilder {
        self.backends.push(backend);
        self
    }

    /// What was measured of the CPU, instead of what is on disk.
    pub fn cpu_profile(mut self, profile: DeviceProfile) -> EngineBuilder {
        self.cpu_profile = Some(profile);
        self
    }

    /// Measurements to use instead of those on disk or new ones.
    pub fn profile(mut self, profile: Profile) -> EngineBuilder {
        self.profile = Some(profile);
        self
    }

    /// Keep measurements in this folder, and what drivers of GPUs compiled.
    pub fn cache_folder(mut self, folder: impl Into<PathBuf>) -> EngineBuilder {
        self.cache = Cache::Folder(folder.into());
        self
    }

    /// Keep measurements, and what drivers compiled, nowhere.
    pub fn no_cache(mut self) -> EngineBuilder {
        self.cache = Cache::Off;
        self
    }

    /// How long a wait for a device may take where the caller names no deadline: 20 times what was predicted, and 10 seconds at
    /// least, unless it is said here. When it has passed, the work goes to another device.
    pub fn deadline(mut self, deadline: Duration) -> EngineBuilder {
        self.options.deadline = Some(deadline);
        self
    }

    /// Bytes that may be held to compute again what a lost device had.
    pub fn recovery_bytes(mut self, bytes: u64) -> EngineBuilder {
        self.options.recovery_bytes = bytes;
        self
    }

    /// How exactly matrix products are computed that are written down on this engine, where the call says nothing:
    /// [`Precision::Highest`] unless it is said here. Less is faster on processors and GPUs that have instructions for it.
    /// Convolutions are computed at the highest precision, whatever is said.
    pub fn precision(mut self, precision: Precision) -> EngineBuilder {
        self.options.precision = precision;
        self
    }

    /// Whether operations share kernels; off is for finding faults.
    pub fn fuse(mut self, yes: bool) -> EngineBuilder {
        self.options.fuse = yes;
        self
    }

    /// The engine, its CPU open. GPUs follow in the background, once work could gain by one or somebody asks for one.
    pub fn build(self) -> Result<Engine> {
        let mut notes = Vec::new();
        // Asked once: where there are control groups, each answer takes twenty system calls.
        let cores = available_parallelism().map_or(1, NonZeroUsize::get);
        let cpu = CpuDevice::new(CpuOptions {
            threads: Some(self.threads.unwrap_or(cores)),
            memory_bytes: self.memory_bytes,
            ..CpuOptions::default()
        });
        let failed = |source| Error::Device { device: "cpu".to_owned(), source };
        let cpu: Arc<dyn Device> = Arc::new(cpu.map_err(failed)?);
        let memory_limit = cpu.memory().budget;
        let folder = self.cache.folder(&mut notes);
        let file = folder.as_ref().map(|folder| ProfileFile::in_folder(folder, &fingerprint(&cpu, cores)));
        let kept = folder.map(KeptPipelines::in_folder);
        let stored = self.profile.clone().or_else(|| file.as_ref().and_then(|f| f.load(&mut notes)));
        let known = |device: &Arc<dyn Device>| calibrate::known(stored.as_ref(), device.info());
        let unmeasured = || DeviceProfile {
            tuning: calibrate::known_tuning(stored.as_ref(), cpu.info()),
            ..calibrate::unmeasured(cpu.info())
        };
        let cpu_profile = self.cpu_profile.clone().or_else(|| known(&cpu)).unwrap_or_else(unmeasured);
        cpu.adopt(&cpu_profile.tuning);
        let mut entries = vec![Entry::ready("cpu".to_owned(), cpu, cpu_profile)];
        for (index, (device, profile)) in self.devices.iter().enumerate() {
            let name = format!("{}:{index}", device.info().backend);
            let profile = profile.clone().or_else(|| known(device));
            entries.push(Entry::ready(
                name,
                device.clone(),
                profile.unwrap_or_else(|| calibrate::unmeasured(device.info())),
            ));
        }
        let prospect = Prospect::of(stored.as_ref());
        let (software, webgpu_limits, gpus) = (self.software, self.webgpu_limits, !self.no_gpus);
        let (graphics, backends, kept_file) = (self.graphics, self.backends, (kept.clone(), file.clone()));
        let is_needed = gpus || !backends.is_empty();
        let search = is_needed.then(|| {
            let (kept, file) = kept_file;
            Search { gpus, backends, software, graphics, webgpu_limits, stored, file, kept }
        });
        let devices = Arc::new(Devices::new(entries, search, notes));
        let (plans, options) = (Arc::new(Plans::default()), self.options);
        devices.keepers.add(&plans);
        Ok(Engine(Arc::new(Shared { devices, plans, options, memory_limit, file, kept, prospect })))
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Cache {
    /// The folder this setting means; none at all is fine and noted.
    fn folder(&self, notes: &mut Vec<String>) -> Option<PathBuf> {
        match self {
            Cache::Off => None,
            Cache::Folder(folder) => Some(folder.clone()),
            Cache::User => {
                let base = choose_base_strategy().ok();
                if base.is_none() {
                    notes.push("there is no home directory: what is measured is kept for this process only".to_owned());
                }
                base.map(|base| base.cache_dir().join("breakeven"))
            }
        }
    }
}

/// What measurements depend on besides the devices themselves.
fn fingerprint(cpu: &Arc<dyn Device>, cores: usize) -> String {
    let (version, method) = (env!("CARGO_PKG_VERSION"), calibrate::METHOD);
    format!("{}, {}, {cores} cores, version {version}, method {method}", cpu.info().name, cpu.info().driver)
}
