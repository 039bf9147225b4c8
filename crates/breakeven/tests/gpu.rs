//! The engine on every GPU of the machine, software ones included. Without any, these tests fail and say so.

use std::time::Duration;

use breakeven::{
    Activation, Conv, ConvTranspose, DType, Deadline, DeviceId, DeviceState, Engine, Lstm, Pad, Padding, Pool, Resize,
    Sequence, Tensor, einsum,
};

/// An engine with all GPUs open, and their numbers.
fn engine() -> (Engine, Vec<DeviceId>) {
    let engine = Engine::builder().software(true).no_cache().build().unwrap();
    engine.ready(Deadline::after(Duration::from_mins(5))).unwrap();
    let devices = engine.devices();
    let gpus: Vec<DeviceId> = devices.iter().filter(|d| d.id.0 > 0).map(|d| d.id).collect();
    let unusable: Vec<_> = devices.iter().filter(|d| d.state != DeviceState::Ready).collect();
    assert!(unusable.is_empty(), "these devices cannot be used: {unusable:#?}");
    assert!(!gpus.is_empty(), "there is no GPU and no software adapter: {:?}", engine.notes());
    (engine, gpus)
}

fn ramp(engine: &Engine, shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    engine.from_vec((0..n).map(|i| (i % 17) as f32 * 0.125 - 1.0).collect::<Vec<_>>(), shape)
}

fn assert_close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-5 * w.abs().max(1.0), "{what} [{i}]: got {g}, want {w}");
    }
}

#[test]
fn the_same_work_gives_the_same_values_on_every_device() {
    let (engine, gpus) = engine();
    let (x, w) = (ramp(&engine, &[33, 20]), ramp(&engine, &[7, 20]));
    let hidden = x.linear(&w, Some(&ramp(&engine, &[7]))).gelu();
    let results =
        [hidden.softmax(-1), hidden.layer_norm(None, None, 1e-5).t(), hidden.sum(0), hidden.flip(1).slice(0, 3..9)];
    for (i, result) in results.iter().enumerate() {
        let want = result.on(DeviceId(0)).to_vec::<f32>().unwrap();
        for &gpu in &gpus {
            assert_close(&result.on(gpu).to_vec::<f32>().unwrap(), &want, &format!("result {i} on {gpu:?}"));
        }
    }
}

/// What is left on a device and is larger than one piece of it comes straight into the caller's memory, as often as it is read.
#[test]
fn large_results_are_read_from_the_device_piece_by_piece() {
    let (engine, gpus) = engine();
    let n = (40 << 20) / 4 + 3;
    let x = ramp(&engine, &[n]);
    for gpu in gpus {
        let y = (&x + 1.0).on(gpu);
        engine.run(&[&y]).unwrap();
        let mut out = vec![0f32; n];
        y.read_into(&mut out, Deadline::after(Duration::from_mins(2))).unwrap();
        for got in [out, y.to_vec::<f32>().unwrap()] {
            let wrong = got.iter().enumerate().find(|(i, g)| **g != (i % 17) as f32 * 0.125);
            assert_eq!((wrong, got.len()), (None, n), "on {gpu:?}");
        }
    }
}

/// Floats between 2^-60 and 2^60 of either sign, with any significand.
fn spread(engine: &Engine, seed: u64, n: usize) -> Tensor {
    let bits = engine.random_bits(seed, n).to_vec::<u32>().unwrap();
    let one = |b: u32| f32::from_bits((b & 0x807f_ffff) | (67 + (b >> 23 & 0xff) % 120) << 23);
    engine.from_vec(bits.into_iter().map(one).collect(), n)
}

#[test]
fn quotients_are_the_nearest_and_round_alike_on_every_device() {
    let (engine, gpus) = engine();
    let (x, y) = (spread(&engine, 1, 100_000), spread(&engine, 2, 100_000));
    let (quotient, quantised) = (&x / &y, (spread(&engine, 3, 4000) / 1e17).dynamic_quantize_linear().0);
    let bits =
        |device| -> Vec<u32> { quotient.on(device).to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect() };
    let bytes = |device| quantised.on(device).to_vec::<u8>().unwrap();
    let want: (Vec<u32>, Vec<u8>) = (bits(DeviceId(0)), bytes(DeviceId(0)));
    for gpu in gpus {
        let got = (bits(gpu), bytes(gpu));
        let differ = got.0.iter().zip(&want.0).filter(|(g, w)| g != w).count();
        // Where the driver's own quotient is a power of two away, one unit may stay.
        assert!(differ <= 2, "{differ} of 100,000 quotients differ on {gpu:?}");
        assert_eq!(got.1, want.1, "{gpu:?}");
    }
}

fn conv(stride: usize, padding: Padding, groups: usize) -> Conv {
    Conv { stride: vec![stride; 2], padding, groups, ..Conv::default() }
}

/// Results that need windows, pads, gathers and products, with their names.
fn composed(engine: &Engine) -> Vec<(&'static str, Tensor)> {
    let (image, weight) = (ramp(engine, &[2, 4, 7, 5]), ramp(engine, &[6, 2, 3, 2]));
    let uneven = Padding::Explicit(vec![(1, 2), (0, 3)]);
    let apart = ConvTranspose { stride: vec![2, 3], padding: vec![(1, 0), (0, 1)], ..ConvTranspose::default() };
    let pool = Pool { size: vec![3, 2], stride: vec![2, 2], ceil: true, ..Pool::default() };
    let sequence = ramp(engine, &[3, 2, 4]);
    let (input, recurrent) = (ramp(engine, &[12, 4]), ramp(engine, &[12, 3]));
    let lstm = Lstm {
        input: &input,
        recurrent: &recurrent,
        bias: None,
        peephole: None,
        cell: None,
        activations: [Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
        couples_forget: false,
    };
    let (states, _, cell) = sequence.lstm(&lstm, &Sequence::default()).unwrap();
    let indices = image.max_pool_indices(&pool).cast(DType::I32).cast(DType::F32);
    vec![
        ("grouped conv", image.conv(&weight, None, &conv(1, uneven, 2))),
        ("same conv", image.conv(&ramp(engine, &[3, 4, 3, 3]), None, &conv(2, Padding::SameUpper, 1))),
        ("depthwise conv", image.conv(&ramp(engine, &[4, 1, 3, 3]), None, &conv(1, Padding::SameLower, 4))),
        ("transposed conv", image.conv_transpose(&ramp(engine, &[4, 3, 3, 2]), None, &apart)),
        ("max pool", image.max_pool(&pool)),
        ("places of max pool", indices),
        ("average pool", image.avg_pool(&pool, false)),
        ("group norm", image.group_norm(2, None, None, 1e-5)),
        ("resize", image.resize(2, &Resize::linear(7, 10)).resize(3, &Resize::nearest(5, 3))),
        ("lstm", states),
        ("cell of lstm", cell),
        ("reflected", image.pad(&[(0, 0), (0, 0), (2, 1), (1, 3)], Pad::Reflect)),
        ("triangle", image.triu(1)),
        ("contraction", einsum("nchw,ocij->nohi", &[&image, &ramp(engine, &[6, 4, 3, 2])])),
        ("uniform", engine.uniform(5, [3, 40])),
        ("normal", engine.normal(5, [3, 40])),
        ("ramp", engine.arange(DType::F32, -3.0, 0.5, 3000)),
    ]
}

/// Asymmetric padding, groups with more outputs than groups, and everything else that is made of other operations.
#[test]
fn m15_m17_composed_operations_give_the_same_values_on_every_device() {
    let (engine, gpus) = engine();
    for (name, result) in composed(&engine) {
        let want = result.on(DeviceId(0)).to_vec::<f32>().unwrap();
        assert!(want.iter().any(|x| *x != 0.0), "{name} is all zeros");
        for &gpu in &gpus {
            assert_close(&result.on(gpu).to_vec::<f32>().unwrap(), &want, &format!("{name} on {gpu:?}"));
        }
    }
}

#[test]
fn random_bits_are_the_same_on_every_device() {
    let (engine, gpus) = engine();
    let bits = engine.random_bits(0x0123_4567_89AB_CDEF, [5, 333]);
    let want = bits.on(DeviceId(0)).to_vec::<u32>().unwrap();
    for gpu in gpus {
        assert_eq!(bits.on(gpu).to_vec::<u32>().unwrap(), want, "{gpu:?}");
    }
}
