//! Convolutions.

use breakeven::{Conv, ConvTranspose, Padding};

use super::{check, count, engine, flat, places};

/// A convolution as a sum over everything.
fn naive(x: (&[f64], &[usize]), w: (&[f64], &[usize]), how: &Conv, pads: &[(usize, usize)]) -> (Vec<usize>, Vec<f64>) {
    let ((x, xs), (w, ws)) = (x, w);
    let groups = how.groups.max(1);
    let rank = xs.len() - 2;
    let at = |list: &[usize], i: usize| list.get(i).copied().unwrap_or(1);
    let reach = |i: usize| (ws[i + 2] - 1) * at(&how.dilation, i) + 1;
    let counts: Vec<usize> =
        (0..rank).map(|i| (xs[i + 2] + pads[i].0 + pads[i].1 - reach(i)) / at(&how.stride, i) + 1).collect();
    let shape = [&[xs[0], ws[0]], &counts[..]].concat();
    let value = |out: &Vec<usize>| {
        let group = out[1] / (ws[0] / groups);
        places(&ws[1..])
            .iter()
            .map(|tap| {
                let mut from = vec![out[0], group * ws[1] + tap[0]];
                for i in 0..rank {
                    let place = out[i + 2] * at(&how.stride, i) + tap[i + 1] * at(&how.dilation, i);
                    match place.checked_sub(pads[i].0).filter(|&p| p < xs[i + 2]) {
                        Some(place) => from.push(place),
                        None => return 0.0,
                    }
                }
                x[flat(xs, &from)] * w[flat(ws, &[&[out[1]], &tap[..]].concat())]
            })
            .sum::<f64>()
    };
    let values = places(&shape).iter().map(value).collect();
    (shape, values)
}

fn values(shape: &[usize], scale: f64, offset: f64) -> Vec<f64> {
    (0..shape.iter().product()).map(|i: usize| f64::from(((i as f64 + offset) * scale) as f32)).collect()
}

fn check_conv(xs: &[usize], ws: &[usize], how: &Conv) {
    let e = engine();
    let pads = match &how.padding {
        Padding::Explicit(pads) if !pads.is_empty() => pads.clone(),
        _ => vec![(0, 0); xs.len() - 2],
    };
    let (shape, want) = naive((&values(xs, 0.01, 0.0), xs), (&values(ws, 0.1, -17.0), ws), how, &pads);
    let bias = count(&e, &[ws[0]], 0.5, 1.0);
    let inner: usize = shape[2..].iter().product();
    let want: Vec<f64> = want.iter().enumerate().map(|(i, x)| x + 0.5 * ((i / inner % ws[0]) as f64 + 1.0)).collect();
    check(&count(&e, xs, 0.01, 0.0).conv(&count(&e, ws, 0.1, -17.0), Some(&bias), how), &shape, &want);
}

#[test]
fn convolutions_of_every_kind_are_sums_over_windows() {
    let conv = |stride: &[usize], dilation: &[usize], pads: &[(usize, usize)], groups| Conv {
        stride: stride.to_vec(),
        dilation: dilation.to_vec(),
        padding: Padding::Explicit(pads.to_vec()),
        groups,
    };
    check_conv(&[2, 4, 7, 5], &[6, 2, 3, 2], &conv(&[2, 1], &[2, 1], &[(1, 2), (0, 3)], 2));
    check_conv(&[2, 3, 9], &[4, 3, 3], &conv(&[2], &[], &[(1, 1)], 1));
    check_conv(&[1, 6, 8, 8], &[6, 1, 3, 3], &conv(&[], &[], &[(1, 1), (1, 1)], 6));
    check_conv(&[1, 3, 8, 8], &[6, 1, 3, 3], &conv(&[2, 2], &[], &[(0, 1), (1, 0)], 3));
    check_conv(&[2, 5, 4, 4], &[3, 5, 1, 1], &conv(&[], &[], &[], 1));
    check_conv(&[1, 5, 5, 4], &[3, 5, 1, 1], &conv(&[2, 3], &[], &[], 1));
    check_conv(&[1, 4, 5, 4, 3], &[2, 2, 2, 2, 2], &conv(&[1, 2, 1], &[2, 1, 1], &[(1, 0), (0, 1), (1, 1)], 2));
    check_conv(&[1, 2, 5, 4, 3], &[3, 2, 2, 3, 2], &conv(&[], &[], &[], 1));
    check_conv(&[1, 2, 3], &[2, 2, 3], &conv(&[], &[], &[(2, 2)], 1));
}

#[test]
fn same_padding_puts_an_odd_element_where_it_says() {
    let e = engine();
    let x = count(&e, &[1, 1, 6, 6], 1.0, 0.0);
    let ones = e.full(breakeven::DType::F32, 1.0, [1, 1, 3, 3]);
    let same = |padding| Conv { stride: vec![2, 2], padding, ..Conv::default() };
    let upper = [63., 81., 63., 171., 189., 135., 168., 180., 126.];
    check(&x.conv(&ones, None, &same(Padding::SameUpper)), &[1, 1, 3, 3], &upper);
    let lower = [14., 30., 42., 75., 126., 144., 147., 234., 252.];
    check(&x.conv(&ones, None, &same(Padding::SameLower)), &[1, 1, 3, 3], &lower);
    let rows = count(&e, &[1, 1, 4, 2], 1.0, 0.0);
    let pair = e.full(breakeven::DType::F32, 1.0, [1, 1, 1, 2]);
    check(&rows.conv(&pair, None, &same(Padding::default())), &[1, 1, 2, 1], &[1., 9.]);
}

/// The definition: `<conv(y, w), x> = <y, conv_transpose(x, w)>` for every y, so each element of the result is a
/// convolution of a unit tensor with the weights, times the input.
fn check_transpose(xs: &[usize], ws: &[usize], how: &ConvTranspose) {
    let e = engine();
    let (x, w) = (count(&e, xs, 0.1, -3.0), count(&e, ws, 0.1, -7.0));
    let got = x.conv_transpose(&w, None, how);
    let shape = got.shape().to_vec();
    let conv = Conv {
        stride: how.stride.clone(),
        dilation: how.dilation.clone(),
        padding: Padding::Explicit(how.padding.clone()),
        groups: how.groups,
    };
    let pads = if how.padding.is_empty() { vec![(0, 0); xs.len() - 2] } else { how.padding.clone() };
    let (xv, wv) = (values(xs, 0.1, -3.0), values(ws, 0.1, -7.0));
    let n: usize = shape.iter().product();
    let want: Vec<f64> = (0..n)
        .map(|i| {
            let mut unit = vec![0.0; n];
            unit[i] = 1.0;
            let (back, sums) = naive((&unit, &shape), (&wv, ws), &conv, &pads);
            assert_eq!(back, xs);
            sums.iter().zip(&xv).map(|(a, b)| a * b).sum()
        })
        .collect();
    check(&got, &shape, &want);
}

#[test]
fn a_transposed_convolution_is_the_adjoint_of_a_convolution() {
    let how =
        |stride: &[usize], dilation: &[usize], padding: &[(usize, usize)], extra: &[usize], groups| ConvTranspose {
            stride: stride.to_vec(),
            dilation: dilation.to_vec(),
            padding: padding.to_vec(),
            extra: extra.to_vec(),
            groups,
        };
    check_transpose(&[1, 2, 3, 3], &[2, 2, 3, 3], &how(&[], &[], &[], &[], 1));
    check_transpose(&[1, 2, 3, 2], &[2, 3, 3, 2], &how(&[2, 3], &[], &[(1, 0), (0, 1)], &[1, 0], 1));
    check_transpose(&[2, 4, 3], &[4, 1, 3], &how(&[2], &[2], &[(1, 1)], &[], 2));
    check_transpose(&[1, 1, 2, 2, 2], &[1, 1, 2, 2, 2], &how(&[2, 1, 1], &[], &[], &[], 1));
}

#[test]
fn a_convolution_that_does_not_fit_says_why() {
    let e = engine();
    let (x, w) = (count(&e, &[1, 3, 4, 4], 1.0, 0.0), count(&e, &[2, 2, 3, 3], 1.0, 0.0));
    let text = x.conv(&w, None, &Conv::default()).check().unwrap_err().to_string();
    assert!(text.contains("3 channels in 1 groups") && text.contains("conv.rs"), "{text}");
    let empty = x.slice(1, ..2).conv(&count(&e, &[2, 2, 5, 5], 1.0, 0.0), None, &Conv::default());
    check(&empty, &[1, 2, 0, 0], &[]);
}
