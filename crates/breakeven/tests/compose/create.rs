//! Ramps, identities and random numbers.

use breakeven::DType;

use super::{check, engine};

#[test]
fn ramps_of_every_length_count_up() {
    let e = engine();
    for n in [0, 1, 5, 1024, 1025, 3_000_000] {
        let got = e.arange(DType::I64, 3.0, -2.0, n).to_vec::<i64>().unwrap();
        assert!(got.len() == n && got.iter().enumerate().all(|(i, &x)| x == 3 - 2 * i as i64), "{n}");
    }
    // Past the whole numbers that f32 has.
    let far = e.arange(DType::I64, 0.0, 1.0, (1 << 24) + 1100).slice(0, (1 << 24) + 1000..).to_vec::<i64>().unwrap();
    assert!(far.iter().zip((1 << 24) + 1000..).all(|(&x, want)| x == want));
    check(&e.arange(DType::F32, 0.5, 0.25, 4), &[4], &[0.5, 0.75, 1.0, 1.25]);
    check(&e.linspace(DType::F32, -1.0, 2.0, 4), &[4], &[-1.0, 0.0, 1.0, 2.0]);
    check(&e.linspace(DType::F64, 5.0, 9.0, 1), &[1], &[5.0]);
    check(&e.eye(DType::F32, 2, 3, 1), &[2, 3], &[0., 1., 0., 0., 0., 1.]);
    check(&e.eye(DType::I32, 3, 2, -1), &[3, 2], &[0., 0., 1., 0., 0., 1.]);
}

#[test]
fn random_bits_are_those_of_threefry() {
    let e = engine();
    // Published known answers: counter (0, 0) and key (0, 0).
    assert_eq!(e.random_bits(0, 1).to_vec::<u32>().unwrap(), [0x6B20_0159]);
    let bits = e.random_bits(42, [2, 3]).to_vec::<u32>().unwrap();
    assert_eq!(e.random_bits(42, 6).to_vec::<u32>().unwrap(), bits, "the shape does not change the stream");
    assert_ne!(e.random_bits(42 << 32, 6).to_vec::<u32>().unwrap(), bits);
}

/// Mean, variance, and the share of neighbours that rise, against what chance allows at six deviations.
#[test]
fn random_numbers_have_the_moments_they_should() {
    let e = engine();
    let n = 1 << 18;
    let moments = |x: &[f32]| {
        let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        (mean, x.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n as f64)
    };
    let deviation = (n as f64).sqrt().recip();
    let uniform = e.uniform(7, n).to_vec::<f32>().unwrap();
    let (mean, variance) = moments(&uniform);
    assert!((mean - 0.5).abs() < 6.0 * deviation * (1.0f64 / 12.0).sqrt(), "{mean}");
    assert!((variance - 1.0 / 12.0).abs() < 6.0 * deviation * (1.0f64 / 180.0).sqrt(), "{variance}");
    assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
    let rises = uniform.windows(2).filter(|w| w[0] < w[1]).count() as f64 / n as f64;
    assert!((rises - 0.5).abs() < 6.0 * deviation * 0.5, "{rises}");
    let (mean, variance) = moments(&e.normal(7, n).to_vec::<f32>().unwrap());
    assert!(mean.abs() < 6.0 * deviation, "{mean}");
    assert!((variance - 1.0).abs() < 6.0 * deviation * 2f64.sqrt(), "{variance}");
}
