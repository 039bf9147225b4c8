//! Looking for GPUs in the background: list, open, test, measure.

use std::fmt;
use std::sync::{Arc, Weak};

use breakeven_device::{Backend, Copier, Device, DeviceError, DeviceInfo, DeviceKind};
use breakeven_plan::{DeviceId, DeviceProfile, Profile, Trust};
use breakeven_wgpu::{Graphics, KeptPipelines, Limits, WgpuBackend, WgpuOptions, pass_self_test};

use crate::calibrate::{self, Effort};
use crate::devices::{Devices, Entry};
use crate::profile_file::ProfileFile;
use crate::recovery::Opener;

/// What to look for, and where.
pub(crate) struct Search {
    /// Whether drivers of GPUs are asked.
    pub gpus: bool,
    /// Other drivers, which are asked first.
    pub backends: Vec<Arc<dyn Backend>>,
    pub software: bool,
    /// Through which interface GPUs are looked for.
    pub graphics: Option<Graphics>,
    pub webgpu_limits: bool,
    /// What was measured earlier.
    pub stored: Option<Profile>,
    pub file: Option<ProfileFile>,
    /// What drivers compiled earlier, and will from now on.
    pub kept: Option<KeptPipelines>,
}

/// Search on a thread of its own. An engine that is dropped meanwhile is not kept alive.
pub(crate) fn spawn(search: Search, devices: &Arc<Devices>) {
    let held = Arc::downgrade(devices);
    let spawned = devices.inside.spawn("breakeven-search", move || search.run_and_report(&held));
    if let Err(error) = spawned {
        devices.note(format!("GPUs could not be looked for: the system refused a thread ({error})"));
        devices.search_ended();
    }
}

impl Search {
    fn run_and_report(&self, devices: &Weak<Devices>) {
        // A driver may panic on a thread of ours; the engine then goes on with what it has.
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(devices)));
        if let Some(devices) = devices.upgrade() {
            if found.is_err() {
                devices.note("the search for GPUs broke off: a graphics driver failed".to_owned());
            }
            devices.search_ended();
        }
    }

    fn run(&self, devices: &Weak<Devices>) {
        let mut opened = false;
        for backend in self.backends.iter().filter(|_| is_wanted(devices)) {
            opened |= self.open_all(backend, devices);
        }
        if self.gpus && is_wanted(devices) {
            opened |= self.open_all(&self.graphics(devices), devices);
        }
        // What was not reached would be missing in the file.
        if is_wanted(devices) {
            self.finish(opened, devices);
        }
        // A process that ends without closing its devices leaves what they were measured with.
        self.kept.iter().for_each(KeptPipelines::save);
    }

    /// The drivers of GPUs.
    fn graphics(&self, devices: &Weak<Devices>) -> Arc<dyn Backend> {
        let limits = if self.webgpu_limits { Limits::WebGpuDefault } else { Limits::Adapter };
        // Bytes are brought to staging memory by the threads that the engine may use.
        let cpu = devices.upgrade().and_then(|devices| devices.snapshot().device(DeviceId::HOST));
        let copier = cpu.map(Copier::of).unwrap_or_default();
        let (graphics, kept) = (self.graphics, self.kept.clone());
        let backend = WgpuBackend::new(WgpuOptions { graphics, limits, copier, kept, ..WgpuOptions::default() });
        match self.graphics {
            Some(graphics) => {
                note(devices, &format!("GPUs were looked for through {graphics} alone, as was asked for"));
            }
            None if backend.list().is_empty() => {
                note(devices, "no GPU was found: there is no Vulkan, Metal, DirectX 12 or OpenGL driver");
            }
            None => {}
        }
        Arc::new(backend)
    }

    /// Open all devices of a driver; true when one of them can be used.
    ///
    /// A driver that nobody uses is not kept for as long as the CPU is measured: the process may end meanwhile.
    fn open_all(&self, backend: &Arc<dyn Backend>, devices: &Weak<Devices>) -> bool {
        let found = backend.list();
        let opened = found.iter().enumerate().filter(|(index, info)| self.open(backend, *index, info, devices));
        opened.count() > 0
    }

    /// Open, measure and add one adapter; true when it can be used.
    fn open(&self, backend: &Arc<dyn Backend>, index: usize, info: &DeviceInfo, devices: &Weak<Devices>) -> bool {
        if !is_wanted(devices) {
            return false;
        }
        let name = format!("{}:{index}", backend.name());
        let twin = devices.upgrade().and_then(|devices| devices.snapshot().twin(info));
        let closed = match (&info.unusable, twin, info.kind) {
            (Some(why), ..) => Some(why.clone()),
            (None, Some(twin), _) => Some(format!("it is the same device as {twin}")),
            (None, None, DeviceKind::Software) if !self.software => {
                Some("it is a software adapter: for tests only".to_owned())
            }
            _ => None,
        };
        let entry = match closed {
            Some(why) => Entry::unusable(name, info.clone(), why),
            None => match backend.open(index).and_then(|d| Ok((self.tested(&d, devices)?, d))) {
                Err(DeviceError::Cancelled) => return false,
                Ok((profile, device)) => {
                    let opener = Opener { backend: backend.clone(), index };
                    Entry::ready(name, device, profile).opened_by(opener)
                }
                Err(error) => Entry::unusable(name, info.clone(), error.to_string()),
            },
        };
        let usable = entry.device.is_some();
        devices.upgrade().inspect(|d| d.add(entry)).is_some() && usable
    }

    /// The profile of a device: stored, else measured now.
    fn profile(&self, device: &Arc<dyn Device>, go_on: &dyn Fn() -> bool) -> Result<DeviceProfile, DeviceError> {
        let measure = || calibrate::measure_while(device, Effort::QUICK, go_on);
        calibrate::known(self.stored.as_ref(), device.info()).map_or_else(measure, Ok)
    }

    /// As [`Search::profile`], of a device that has to pass its self-test before it is measured. Who has a stored profile passed it
    /// with the driver that it has; software adapters are asked by the tests, for which alone they are there.
    fn tested(&self, device: &Arc<dyn Device>, devices: &Weak<Devices>) -> Result<DeviceProfile, DeviceError> {
        let (info, go_on) = (device.info(), || is_wanted(devices));
        if info.kind != DeviceKind::Software && calibrate::known(self.stored.as_ref(), info).is_none() {
            pass_self_test(&**device, &go_on)?;
        }
        self.profile(device, &go_on)
    }

    /// With a GPU to compare with, the CPU is measured too, else only the numbers that it works by; and everything is kept for
    /// the next start.
    fn finish(&self, opened: bool, devices: &Weak<Devices>) {
        let go_on = || is_wanted(devices);
        let Some(snapshot) = devices.upgrade().map(|devices| devices.snapshot()) else { return };
        let cpu = snapshot.entry(DeviceId::HOST);
        let Some(device) = &cpu.device else { return };
        let measured = match cpu.profile.trust {
            Trust::Builtin if opened => Some(self.profile(device, &go_on)),
            Trust::Builtin if cpu.profile.tuning.is_empty() => Some(calibrate::tune(device, cpu.profile.clone())),
            // Everything is known of it; the file may lack the others.
            _ if opened => None,
            _ => return,
        };
        let Some(devices) = devices.upgrade().filter(|devices| devices.is_wanted()) else { return };
        match measured {
            Some(Ok(profile)) => devices.measured(DeviceId::HOST, profile),
            Some(Err(DeviceError::Cancelled)) | None => {}
            Some(Err(error)) => devices.note(format!("the CPU could not be measured: {error}")),
        }
        if let Some(Err(why)) = self.file.as_ref().map(|f| f.save(&devices.profile())) {
            devices.note(why);
        }
    }
}

pub(crate) fn is_wanted(devices: &Weak<Devices>) -> bool {
    devices.upgrade().is_some_and(|devices| devices.is_wanted())
}

fn note(devices: &Weak<Devices>, note: &str) {
    devices.upgrade().into_iter().for_each(|d| d.note(note.to_owned()));
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.backends.iter().map(|backend| backend.name()).collect();
        f.debug_struct("Search").field("backends", &names).finish_non_exhaustive()
    }
}
