//! Norms over channels and groups.

use super::{check, count, engine};

#[test]
fn channels_are_normalised_by_what_is_given() {
    let e = engine();
    let x = count(&e, &[1, 2, 2], 1.0, 0.0);
    let list = |values: &[f32]| e.tensor(values, values.len());
    let y = x.batch_norm(&list(&[0.5, 2.0]), &list(&[4.0, 1.0]), &list(&[2.0, 1.0]), &list(&[1.0, 0.0]), 0.0);
    check(&y, &[1, 2, 2], &[0.5, 1.5, 0.0, 1.0]);
}

#[test]
fn groups_have_mean_zero_and_variance_one() {
    let e = engine();
    let x = count(&e, &[1, 4, 2], 1.0, 0.0);
    // Four numbers in steps of one: variance 1.25.
    let unit: Vec<f64> = [-1.5, -0.5, 0.5, 1.5].iter().map(|v| v / 1.25f64.sqrt()).collect();
    check(&x.group_norm(2, None, None, 0.0), &[1, 4, 2], &[&unit[..], &unit].concat());
    let scale = e.tensor(&[1.0, 2.0, 3.0, 4.0], 4);
    let want: Vec<f64> = (0..8).map(|i| if i % 2 == 0 { -1.0 } else { 1.0 } * f64::from(i / 2 + 1)).collect();
    check(&x.instance_norm(Some(&scale), None, 0.0), &[1, 4, 2], &want);
    assert!(x.group_norm(3, None, None, 0.0).check().unwrap_err().to_string().contains("3 groups"));
}

#[test]
fn neighbouring_channels_dampen_each_other() {
    let e = engine();
    let x = count(&e, &[1, 3, 1], 1.0, 1.0);
    let damp = |v: f64, s: f64| v / (1.0 + 0.1 / 3.0 * s).powf(0.75);
    check(&x.local_response_norm(3, 0.1, 0.75, 1.0), &[1, 3, 1], &[damp(1., 5.), damp(2., 14.), damp(3., 13.)]);
}
