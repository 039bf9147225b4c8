//! Plans made earlier: the same graph from the same places is not planned twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use breakeven_device::Device;
use breakeven_exec::Executable;
use breakeven_ir::{Caps, Graph, Kernel, Unsupported};
use breakeven_plan::{DeviceView, Home, Machine, Policy, plan};

use crate::devices::{Entry, Snapshot};
use crate::small::Small;
use crate::trace::{Trace, home};
use crate::{Error, Result};

/// How many plans are kept.
const KEPT: usize = 256;

/// Compiled plans of one engine.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    kept: Mutex<Kept>,
    /// Those of small graphs, found without their fingerprint.
    pub small: Small,
}

#[derive(Debug, Default)]
struct Kept {
    plans: HashMap<u64, Vec<Known>>,
    count: usize,
}

/// A plan and exactly what it was made for.
#[derive(Debug)]
struct Known {
    graph: Graph,
    home: Home,
    policy: Policy,
    version: u64,
    executable: Arc<Executable>,
}

impl Plans {
    /// The compiled plan for `trace` on these devices.
    pub fn executable(
        &self,
        devices: &Snapshot,
        trace: &Trace,
        read: Vec<bool>,
        policy: Policy,
    ) -> Result<Arc<Executable>> {
        let home = home(&trace.inputs, read);
        let key = trace.graph.fingerprint();
        let same =
            |k: &&Known| k.version == devices.version && k.graph == trace.graph && k.home == home && k.policy == policy;
        if let Some(known) = self.lock().plans.get(&key).and_then(|all| all.iter().find(same)) {
            return Ok(known.executable.clone());
        }
        let executable = Arc::new(make(devices, &trace.graph, &home, &policy)?);
        if trace.pins.is_empty() && policy.pin.is_none() && policy.frozen.is_none() {
            self.small.keep(&trace.graph, &home, devices.version, &executable);
        }
        let known = Known {
            graph: trace.graph.clone(),
            home,
            policy,
            version: devices.version,
            executable: executable.clone(),
        };
        self.keep(key, known);
        Ok(executable)
    }

    fn keep(&self, key: u64, known: Known) {
        let mut kept = self.lock();
        if kept.count >= KEPT {
            *kept = Kept::default();
            self.small.clear();
        }
        kept.count += 1;
        kept.plans.entry(key).or_default().push(known);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Plan and compile.
fn make(devices: &Snapshot, graph: &Graph, home: &Home, policy: &Policy) -> Result<Executable> {
    let open: Vec<Option<Arc<dyn Device>>> = devices.ids().map(|id| devices.device(id)).collect();
    let pairs = || devices.entries().iter().zip(&open);
    let answers: Vec<_> = pairs().map(|(entry, device)| answer(entry, device.as_ref())).collect();
    let unlimited = Caps::host();
    let machine = Machine {
        devices: pairs()
            .zip(&answers)
            .map(|((entry, device), supports)| DeviceView {
                name: entry.name.clone(),
                caps: device.as_ref().map_or(&unlimited, |d| d.caps()),
                profile: &entry.profile,
                supports,
                automatic: entry.is_automatic(),
            })
            .collect(),
    };
    let plan = plan(graph, home, policy, &machine).map_err(|e| Error::Placement(e.to_string()))?;
    Executable::new(Arc::new(plan), &open).map_err(|e| devices.name(e))
}

/// Whether a device can run a kernel, asked by the planner.
fn answer<'a>(
    entry: &'a Entry,
    device: Option<&'a Arc<dyn Device>>,
) -> impl Fn(&Kernel) -> std::result::Result<(), Unsupported> + Sync + 'a {
    move |kernel| match device {
        Some(device) => device.supports(kernel),
        None => Err(Unsupported(format!("{} is {:?}", entry.name, entry.state))),
    }
}
