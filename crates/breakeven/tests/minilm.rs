//! The example's model, made small: equal to its plain f64 form on every device, whatever it is batched with.

#[path = "../examples/minilm/batch.rs"]
#[expect(dead_code, reason = "the example groups texts too")]
mod batch;
#[path = "../examples/minilm/load.rs"]
mod load;
#[path = "../examples/minilm/model.rs"]
#[expect(dead_code, reason = "the example asks for sizes too")]
mod model;
#[path = "../examples/minilm/plain.rs"]
mod plain;
#[path = "../examples/minilm/seeded.rs"]
#[expect(dead_code, reason = "the example has a larger one")]
mod seeded;

use std::sync::Arc;
use std::time::Duration;

use breakeven::{DeviceId, Engine, Error, Tensor};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};

use batch::Batch;
use load::Source;
use model::Model;
use plain::Plain;
use seeded::Seeded;

/// What the demo allows on the real model.
const TOLERANCE: f64 = 1e-5;

const TEXTS: [&[i64]; 4] = [&[2, 3], &[2, 17, 40, 5, 3], &[2, 49, 49, 1, 0, 7, 30, 12, 3], &[9]];

fn tiny(engine: &Engine) -> Seeded {
    Seeded { engine: engine.clone(), vocabulary: 50, positions: 16, width: 64, inner: 96, layers: 2 }
}

fn engine() -> Engine {
    let speed = SimSpeed {
        per_submit: Duration::from_micros(5),
        per_launch: Duration::from_micros(1),
        per_wait: Duration::from_micros(5),
        flops_per_second: 1e12,
        bytes_per_second: 1e11,
        link_latency: Duration::from_micros(5),
        link_bytes_per_second: 1e10,
    };
    let simulated = Arc::new(SimDevice::new(SimOptions::new("simulated", speed), &SimClock::new()));
    Engine::builder().gpus(false).no_cache().device(simulated).build().expect("the CPU is there")
}

fn model(engine: &Engine) -> Model {
    load::load(engine, &tiny(engine)).expect("its shapes fit")
}

fn rows(vectors: &Tensor) -> Vec<Vec<f32>> {
    let width = vectors.shape()[1];
    vectors.to_vec::<f32>().expect("it can be computed").chunks(width).map(<[f32]>::to_vec).collect()
}

fn distance(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max)
}

#[test]
fn each_device_computes_what_plain_loops_do() {
    let engine = engine();
    let plain = Plain::load(&tiny(&engine)).expect("its shapes fit");
    let vectors = model(&engine).embed(&Batch::new(&TEXTS));
    for device in [None, Some(DeviceId(0)), Some(DeviceId(1))] {
        let vectors = device.map_or(vectors.clone(), |device| vectors.on(device));
        for (found, ids) in rows(&vectors).iter().zip(TEXTS) {
            let off = distance(found, &plain.embed(ids));
            assert!(off <= TOLERANCE, "{off} on {device:?} for {ids:?}");
        }
    }
}

#[test]
fn padding_changes_nothing() {
    let engine = engine();
    let model = model(&engine);
    let together = rows(&model.embed(&Batch::new(&TEXTS)));
    for (text, together) in TEXTS.iter().zip(together) {
        let alone = rows(&model.embed(&Batch::new(&[text]))).remove(0);
        let off = distance(&alone, &together.into_iter().map(f64::from).collect::<Vec<_>>());
        assert!(off <= 1e-6, "{off} for {text:?}");
    }
}

#[test]
fn vectors_have_length_one() {
    let engine = engine();
    for vector in rows(&model(&engine).embed(&Batch::new(&TEXTS))) {
        let length = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-6, "{length}");
    }
}

/// Weights with one tensor replaced or missing.
struct Changed<'a> {
    whole: &'a Seeded,
    name: &'static str,
    with: Option<Tensor>,
}

impl Source for Changed<'_> {
    fn tensor(&self, name: &str) -> breakeven::Result<Tensor> {
        if name != self.name {
            return self.whole.tensor(name);
        }
        let missing = Error::File { path: self.name(), message: format!("has no tensor '{name}'") };
        self.with.clone().ok_or(missing)
    }

    fn layers(&self) -> usize {
        self.whole.layers()
    }

    fn name(&self) -> String {
        "changed".into()
    }
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let engine = engine();
    let whole = tiny(&engine);
    let check = |name: &'static str, with: Option<Tensor>, expected: &str| {
        let error = load::load(&engine, &Changed { whole: &whole, name, with }).err().expect(name).to_string();
        assert!(error.starts_with("changed: ") && error.contains(name) && error.contains(expected), "{error}");
    };
    let zeros = |dims: &[usize]| Some(engine.from_vec(vec![0f32; dims.iter().product()], dims));
    check("encoder.layer.1.output.dense.bias", None, "has no tensor");
    check("encoder.layer.1.output.dense.bias", zeros(&[63]), "shape [63], [64] is expected");
    check("encoder.layer.0.intermediate.dense.weight", zeros(&[96]), "a matrix is expected");
    check("embeddings.position_embeddings.weight", zeros(&[16, 32]), "rows of 64 are expected");
    check("embeddings.word_embeddings.weight", zeros(&[0, 64]), "a matrix is expected");
    check("embeddings.LayerNorm.weight", Some(engine.from_vec(vec![1i64; 64], [64])), "holds i64, f32 is expected");
    let narrow = Changed { whole: &whole, name: "embeddings.word_embeddings.weight", with: zeros(&[50, 40]) };
    let error = load::load(&engine, &narrow).err().expect("40 is not 32").to_string();
    assert_eq!(error, "changed: its width 40 is no multiple of 32, the width of a head");
}
