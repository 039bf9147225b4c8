//! Pools.

use breakeven::{Padding, Pool};

use super::{check, count, engine, flat, places};

fn pool(size: &[usize], stride: &[usize], dilation: &[usize], pads: &[(usize, usize)], ceil: bool) -> Pool {
    let padding = Padding::Explicit(pads.to_vec());
    Pool { size: size.to_vec(), stride: stride.to_vec(), dilation: dilation.to_vec(), padding, ceil }
}

/// What a window sees: places in the plane, `None` for padding.
fn seen(how: &Pool, spatial: &[usize], window: &[usize]) -> Vec<Option<usize>> {
    let Padding::Explicit(pads) = &how.padding else { unreachable!("tests give explicit padding") };
    let or_one = |list: &[usize], i: usize| list.get(i).copied().unwrap_or(1);
    let place = |tap: &Vec<usize>| {
        let one = |i: usize| {
            let at = window[i] * or_one(&how.stride, i) + tap[i] * or_one(&how.dilation, i);
            at.checked_sub(pads.get(i).map_or(0, |p| p.0)).filter(|&at| at < spatial[i])
        };
        let at: Option<Vec<usize>> = (0..spatial.len()).map(one).collect();
        at.map(|at| flat(spatial, &at))
    };
    places(&how.size).iter().map(place).collect()
}

fn check_pools(shape: &[usize], how: &Pool, counts: &[usize]) {
    let e = engine();
    // Not monotonic, so that the largest is not always the last.
    let n: usize = shape.iter().product();
    let values: Vec<f64> = (0..n).map(|i| ((i * 37) % 23) as f64 - 11.0).collect();
    let x = e.from_vec(values.iter().map(|&x| x as f32).collect::<Vec<_>>(), shape);
    let (spatial, planes) = (&shape[2..], shape[0] * shape[1]);
    let plane: usize = spatial.iter().product();
    let out = [&shape[..2], counts].concat();
    let (mut largest, mut at, mut means, mut norms) = (vec![], vec![], vec![], vec![]);
    for p in 0..planes {
        for window in places(counts) {
            let inside: Vec<usize> = seen(how, spatial, &window).into_iter().flatten().collect();
            let of: Vec<f64> = inside.iter().map(|&i| values[p * plane + i]).collect();
            let best = (0..of.len()).fold(0, |best, i| if of[i] > of[best] { i } else { best });
            largest.push(of[best]);
            at.push(inside[best] as f64);
            means.push(of.iter().sum::<f64>() / of.len() as f64);
            norms.push(of.iter().map(|x| x * x).sum::<f64>().sqrt());
        }
    }
    check(&x.max_pool(how), &out, &largest);
    check(&x.max_pool_indices(how), &out, &at);
    check(&x.avg_pool(how, false), &out, &means);
    check(&x.lp_pool(how, 2.0), &out, &norms);
}

#[test]
fn pools_see_what_their_windows_say() {
    check_pools(&[2, 3, 7, 6], &pool(&[3, 2], &[2, 2], &[], &[], false), &[3, 3]);
    check_pools(&[1, 2, 7, 6], &pool(&[3, 3], &[2, 2], &[], &[(1, 1), (1, 1)], false), &[4, 3]);
    check_pools(&[1, 2, 7, 6], &pool(&[2, 2], &[2, 2], &[], &[], true), &[4, 3]);
    check_pools(&[1, 1, 9], &pool(&[3], &[2], &[2], &[(1, 0)], false), &[3]);
    check_pools(&[1, 1, 4, 5, 4], &pool(&[2, 2, 2], &[1, 2, 2], &[], &[], false), &[3, 2, 2]);
}

#[test]
fn a_mean_may_count_its_padding() {
    let e = engine();
    let x = e.full(breakeven::DType::F32, 1.0, [1, 1, 2, 2]);
    let how = pool(&[2, 2], &[1, 1], &[], &[(1, 0), (0, 1)], false);
    check(&x.avg_pool(&how, true), &[1, 1, 2, 2], &[0.5, 0.25, 1.0, 0.5]);
    check(&x.avg_pool(&how, false), &[1, 1, 2, 2], &[1.0; 4]);
}

#[test]
fn a_nan_in_a_window_is_seen() {
    let e = engine();
    let x = e.tensor(&[1.0, f32::NAN, 2.0, 3.0], [1, 1, 4]);
    check(&x.max_pool(&pool(&[2], &[2], &[], &[], false)), &[1, 1, 2], &[f64::NAN, 3.0]);
}

#[test]
fn fused_rows_of_a_pool_are_all_right() {
    let e = engine();
    let x = count(&e, &[4, 65, 49, 49], 1e-4, 0.0);
    let how = pool(&[7, 7], &[7, 7], &[], &[], false);
    let got = x.avg_pool(&how, false).reshape([4, 65 * 49]).sum(-1);
    // The mean of equal windows, times how many there are, is the sum over 49.
    let plane = 49 * 49;
    let want: Vec<f64> = (0..4)
        .map(|n| (0..65 * plane).map(|i| f64::from(((n * 65 * plane + i) as f64 * 1e-4) as f32)).sum::<f64>() / 49.0)
        .collect();
    check(&got, &[4], &want);
}
