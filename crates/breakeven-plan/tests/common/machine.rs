//! Machines of the tests: speeds and limits in plain numbers.

use std::collections::BTreeMap;

use breakeven_ir::{Caps, Class, Kernel, Unsupported};
use breakeven_plan::{
    ClassCurves, Cost, Curve, DeviceProfile, DeviceView, Home, Knot, Machine, Plan, PlanError, Policy, Trust,
    class_name, plan,
};

pub const CLASSES: [Class; 13] = [
    Class::Map,
    Class::Reduce,
    Class::Scan,
    Class::RowWise,
    Class::Sort,
    Class::MatMul,
    Class::MatMulBf16,
    Class::MatMulF16,
    Class::MatMulInt,
    Class::Conv,
    Class::Attention,
    Class::Gather,
    Class::Scatter,
];

/// A device that the tests describe.
#[derive(Clone)]
pub struct Device {
    pub name: &'static str,
    pub caps: Caps,
    pub profile: DeviceProfile,
    pub supports: fn(&Kernel) -> Result<(), Unsupported>,
    pub automatic: bool,
}

fn seconds(seconds: f64) -> Cost {
    Cost { seconds, spread: 0.0 }
}

/// Rates of every class, in operations and bytes a second.
fn classes(flops: f64, bytes: f64) -> BTreeMap<String, ClassCurves> {
    let curves = ClassCurves { math: line(flops), memory: line(bytes), ..ClassCurves::default() };
    CLASSES.iter().map(|&class| (class_name(class).to_owned(), curves.clone())).collect()
}

/// A rate from far below to far above any size that occurs.
pub fn line(rate: f64) -> Curve {
    Curve::new(vec![Knot::new(1e-6, 1e-6 / rate), Knot::new(1e15, 1e15 / rate)]).unwrap()
}

pub fn cpu() -> Device {
    let profile = DeviceProfile {
        name: "cpu".into(),
        trust: Trust::Full,
        dispatch: seconds(1e-6),
        classes: classes(1e11, 2e10),
        ..DeviceProfile::default()
    };
    Device { name: "cpu", caps: Caps::host(), profile, supports: super::anything, automatic: true }
}

/// A device behind a link, `speed` times as fast as the CPU.
pub fn gpu(speed: f64) -> Device {
    let profile = DeviceProfile {
        name: "gpu".into(),
        trust: Trust::Full,
        submit: seconds(10e-6),
        dispatch: seconds(2e-6),
        sync: seconds(20e-6),
        upload: line(10e9),
        download: line(10e9),
        classes: classes(speed * 1e11, speed * 2e10),
        ..DeviceProfile::default()
    };
    let caps = Caps { host_memory: false, ..Caps::host() };
    Device { name: "gpu", caps, profile, supports: super::anything, automatic: true }
}

/// Plans on these devices, the first of which is the host's CPU.
pub fn try_plan(
    graph: &breakeven_ir::Graph,
    home: &Home,
    policy: &Policy,
    devices: &[Device],
) -> Result<Plan, PlanError> {
    let view = |device: &Device| device.supports;
    let supports: Vec<_> = devices.iter().map(view).collect();
    let views = devices.iter().zip(&supports).map(|(device, supports)| DeviceView {
        name: device.name.to_owned(),
        caps: &device.caps,
        profile: &device.profile,
        supports,
        lowers: &breakeven_plan::never_lowers,
        automatic: device.automatic,
    });
    plan(graph, home, policy, &Machine { devices: views.collect() })
}

pub fn plan_on(graph: &breakeven_ir::Graph, home: &Home, policy: &Policy, devices: &[Device]) -> Plan {
    try_plan(graph, home, policy, devices).expect("it can be planned")
}
