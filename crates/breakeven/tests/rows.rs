//! Rows from outside the crates: as right, as fused, as explained as those of the table.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{DType, DeviceId, DeviceProfile, Engine, Tensor, Tolerance};
use breakeven_device::Device;
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};

breakeven::row! {
    /// `a + b` modulo `modulus`, which both are below.
    static ADD_MOD = add_mod: Word(a: V, b: V, modulus: P) -> V [Tolerance::EXACT] = {
        let sum = a + b;
        V::pick(sum.lt(modulus), sum, sum - modulus)
    };
}
breakeven::row! {
    /// `a` where it is even, else one more, in a row that calls a row.
    static EVEN = even: Word(a: V) -> V [Tolerance::EXACT] = add_mod(a, a & a.lit(1.0), a.lit(4_294_967_295.0));
}
breakeven::row! {
    /// Not the logarithm that it is called after.
    static LN = ln: Float(x: V) -> V [Tolerance::EXACT] = x + 1.0;
}
breakeven::row! {
    /// A step that the CPU's loops do not have alone.
    static HALF = half: Float(x: V) -> V [Tolerance::EXACT] = x.ldexp(x.lit(-1.0));
}

fn sim() -> (Arc<dyn Device>, DeviceProfile) {
    let speed = SimSpeed {
        per_submit: Duration::from_micros(2),
        per_launch: Duration::from_micros(1),
        per_wait: Duration::from_micros(2),
        flops_per_second: 1e12,
        bytes_per_second: 1e11,
        link_latency: Duration::from_micros(2),
        link_bytes_per_second: 1e10,
    };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::new("sim", speed), &SimClock::new()));
    let profile = breakeven::calibrate::measure(&device, breakeven::calibrate::Effort::QUICK).unwrap();
    (device, profile)
}

fn engine() -> Engine {
    let (device, profile) = sim();
    Engine::builder().gpus(false).no_cache().measured_device(device, profile).build().unwrap()
}

fn words(engine: &Engine, count: u32) -> (Vec<u32>, Tensor) {
    let words: Vec<u32> = (0..count).map(|i| i.wrapping_mul(2_654_435_761) % 12_289).collect();
    let tensor = engine.from_vec(words.clone(), [count as usize]);
    (words, tensor)
}

#[test]
fn a_row_from_outside_gives_the_same_on_every_device() {
    let engine = engine();
    let (words, x) = words(&engine, 3001);
    let y = x.map(ADD_MOD, &[&x.flip(0)], &[12_289.0]).map(EVEN, &[], &[]);
    let want: Vec<u32> =
        words.iter().zip(words.iter().rev()).map(|(a, b)| (a + b) % 12_289).map(|sum| sum + sum % 2).collect();
    for device in [DeviceId(0), DeviceId(1)] {
        let got: Vec<u32> = y.on(device).to_vec().unwrap();
        assert_eq!(got, want);
    }
}

#[test]
fn it_is_fused_and_explained_by_its_name() {
    let engine = engine();
    let (_, x) = words(&engine, 16);
    let y = (x.map(ADD_MOD, &[&x], &[97.0]).map(EVEN, &[], &[]) + &x).cast(DType::F32).sum(..);
    let plan = engine.explain(&[&y]).unwrap();
    assert_eq!(plan.decisions.len(), 1, "{plan}");
    let alone = engine.explain(&[&x.map(ADD_MOD, &[&x], &[97.0])]).unwrap();
    assert!(alone.to_string().contains("map of add_mod over [16]"), "{alone}");
}

#[test]
fn a_name_that_the_table_has_is_not_taken_for_it() {
    let engine = engine();
    let x = engine.tensor(&[1.0f32, 3.0], [2]);
    let (own, table) = (x.map(LN, &[], &[]), x.ln());
    assert_eq!(own.on(DeviceId(0)).to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert_eq!(table.on(DeviceId(0)).to_vec::<f32>().unwrap()[0], 0.0);
    assert_eq!(own.on(DeviceId(1)).to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn what_the_cpu_cannot_write_out_runs_elsewhere_and_is_told() {
    let engine = engine();
    let x = engine.tensor(&[3.0f32, -5.0], [2]).map(HALF, &[], &[]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.5, -2.5]);
    let plan = engine.explain(&[&engine.tensor(&[3.0f32], [1]).map(HALF, &[], &[])]).unwrap().to_string();
    assert!(plan.contains("not cpu: `half` needs Ldexp of f32, which no row of the table is alone"), "{plan}");
}

#[test]
fn a_wrong_call_is_an_error_that_names_it() {
    let engine = engine();
    let (_, x) = words(&engine, 4);
    let wrong = |tensor: Tensor| tensor.check().unwrap_err().to_string();
    assert!(wrong(x.map(ADD_MOD, &[], &[97.0])).contains("add_mod(u32[4]): takes 2 tensors and 1 parameters"));
    assert!(wrong(x.map(ADD_MOD, &[&x, &x], &[97.0])).contains("takes 2 tensors"));
    assert!(wrong(x.cast(DType::F32).map(EVEN, &[], &[])).contains("is not defined for f32"));
}
