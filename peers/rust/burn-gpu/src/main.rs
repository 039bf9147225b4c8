//! Burn on a GPU through wgpu and Vulkan, kernels chosen by its own autotuning: the work that Breakeven's `probe` and bench
//! measure, under the same names. Microseconds a call, lower quartile; several calls are in flight and all are waited for.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use burn::tensor::{DType, Device, DeviceKind, Tensor, TensorData, activation};

/// Calls that one wait ends: kernels count, and the host's part of a call is hidden behind them where it can be.
const IN_FLIGHT: usize = 20;
/// At work before anything counts: autotuning, and the card's clock.
const WARM_UP: Duration = Duration::from_millis(1500);

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::vulkan(DeviceKind::DiscreteGpu(0));
    let only = std::env::args().nth(1).unwrap_or_default();
    println!("Burn 0.22 through Vulkan, microseconds a call");
    for n in [1024, 2048, 4096] {
        for (name, dtype, tolerance) in [("f32", DType::F32, 1e-4), ("f16", DType::F16, 2e-2)] {
            let (a, b) = (rows(n, n, 0, dtype, &device), rows(n, n, 7, dtype, &device));
            let want = (0..n).map(|k| f64::from(value(k)) * f64::from(value(k * n + 7))).sum::<f64>();
            let call = || a.clone().matmul(b.clone());
            time(&only, &format!("matmul {name} {n}"), &device, 2e-6 * (n as f64).powi(3), "TFLOP/s", (want, tolerance), call)?;
        }
    }
    for (lines, length) in [(16384, 1024), (131_072, 128)] {
        let x = rows(lines, length, 0, DType::F32, &device);
        let sum = (0..length).map(|i| f64::from(value(i)).exp()).sum::<f64>();
        let want = f64::from(value(0)).exp() / sum;
        let call = || activation::softmax(x.clone(), 1);
        time(&only, &format!("softmax {lines}x{length}"), &device, 8e-6 * (lines * length) as f64, "TB/s", (want, 1e-5), call)?;
    }
    let (a, b) = (rows(16384, 4096, 0, DType::F32, &device), rows(16384, 4096, 1, DType::F32, &device));
    let want = f64::from(value(0)) + f64::from(value(1));
    time(&only, "add 67108864", &device, 12e-6 * (1u64 << 26) as f64, "TB/s", (want, 1e-6), || a.clone() + b.clone())?;
    round_trip(&only, &device)
}

/// Numbers from -0.5 to 0.5 without a pattern.
fn value(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5
}

fn rows(n: usize, m: usize, from: usize, dtype: DType, device: &Device) -> Tensor<2> {
    let data = TensorData::new((0..n * m).map(|i| value(i + from)).collect::<Vec<f32>>(), [n, m]);
    Tensor::from_data(data.convert_dtype(dtype), (device, dtype))
}

/// Prints what `call` takes, `work` being its operations or bytes by 1e-6, after its first element was found to be `want`.
fn time(
    only: &str,
    name: &str,
    device: &Device,
    work: f64,
    unit: &str,
    (want, tolerance): (f64, f64),
    call: impl Fn() -> Tensor<2>,
) -> Result<(), Box<dyn Error>> {
    if !name.contains(only) {
        return Ok(());
    }
    let first = call().slice([0..1, 0..1]).cast(DType::F32).into_data().to_vec::<f32>().map_err(|e| format!("{e:?}"))?[0];
    let size = want.abs().max(1e-3);
    if (f64::from(first) - want).abs() > tolerance * size.max(1.0) {
        return Err(format!("{name} is wrong: {first} instead of {want}, so its time means nothing").into());
    }
    let stretch = || -> Result<f64, Box<dyn Error>> {
        let begun = Instant::now();
        let held: Vec<Tensor<2>> = (0..IN_FLIGHT).map(|_| call()).collect();
        device.sync().map_err(|e| format!("{e:?}"))?;
        let time = begun.elapsed().as_secs_f64() * 1e6 / IN_FLIGHT as f64;
        drop(held);
        Ok(time)
    };
    let us = lower_quartile(stretch)?;
    println!("  {name:<40} {us:>10.1} us  {:>8.2} {unit}", work / us);
    Ok(())
}

/// `add` of 1,000 numbers from the host's memory to the host's memory, one at a time.
fn round_trip(only: &str, device: &Device) -> Result<(), Box<dyn Error>> {
    if !"add 1000, host to host".contains(only) {
        return Ok(());
    }
    let values: Vec<f32> = (0..1000).map(value).collect();
    let us = lower_quartile(|| {
        let begun = Instant::now();
        let [a, b] = [0, 1].map(|_| Tensor::<1>::from_data(TensorData::new(values.clone(), [1000]), device));
        let sum = (a + b).into_data().to_vec::<f32>().map_err(|e| format!("{e:?}"))?;
        let time = begun.elapsed().as_secs_f64() * 1e6;
        if sum.iter().zip(&values).any(|(s, x)| *s != x + x) {
            return Err("add is wrong, so its time means nothing".into());
        }
        Ok(time)
    })?;
    println!("  {:<40} {us:>10.1} us", "add 1000, host to host");
    Ok(())
}

fn lower_quartile(mut measure: impl FnMut() -> Result<f64, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < WARM_UP {
        measure()?;
    }
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP || times.len() < 12 {
        times.push(measure()?);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 4])
}
