//! Quantised tensors and their products, against sums in plain code and values of the ONNX operator documents.

use breakeven::{DType, Engine, Tensor};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().unwrap()
}

fn bytes(count: usize, seed: u32) -> Vec<u8> {
    (0..count as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

/// `sum((a - za) * (b - zb))` for matrices, in plain code.
fn plain([m, k, n]: [usize; 3], a: impl Fn(usize) -> i32, b: impl Fn(usize) -> i32) -> Vec<i32> {
    let one = |e: usize| (0..k).map(|p| a(e / n * k + p) * b(p * n + e % n)).sum();
    (0..m * n).map(one).collect()
}

#[test]
fn products_of_bytes_take_zero_points_of_rows_and_columns() {
    let e = engine();
    let [m, k, n] = [5, 37, 7];
    let (left, right) = (bytes(m * k, 1), bytes(k * n, 9));
    let (a, b) = (e.from_vec(left.clone(), [m, k]), e.from_vec(right.clone(), [k, n]));
    let signed: Vec<i8> = right.iter().map(|x| x.cast_signed()).collect();
    let c = e.from_vec(signed.clone(), [k, n]);
    let check = |got: Tensor, want: Vec<i32>| {
        assert_eq!((got.dtype(), &got.shape()[..]), (DType::I32, [m, n].as_slice()));
        assert_eq!(got.to_vec::<i32>().unwrap(), want);
    };
    let l = |i: usize| i32::from(left[i]);
    check(a.matmul_int(&b, None, None), plain([m, k, n], l, |i| i32::from(right[i])));
    let one = e.from_vec(vec![131u8], ());
    check(a.matmul_int(&c, Some(&one), None), plain([m, k, n], |i| l(i) - 131, |i| i32::from(signed[i])));
    let (rows, columns) = (bytes(m, 5), bytes(n, 77));
    let row_zeros = e.from_vec(rows.clone(), [m]);
    let column_zeros = e.from_vec(columns.iter().map(|x| x.cast_signed()).collect::<Vec<_>>(), [n]);
    let moved_left = |i: usize| l(i) - i32::from(rows[i / k]);
    let moved_right = |i: usize| i32::from(signed[i]) - i32::from(columns[i % n].cast_signed());
    check(a.matmul_int(&c, Some(&row_zeros), Some(&column_zeros)), plain([m, k, n], moved_left, moved_right));
    check(
        a.matmul_int(&c, Some(&row_zeros.reshape([m, 1])), Some(&column_zeros.reshape([1, n]))),
        plain([m, k, n], moved_left, moved_right),
    );
}

#[test]
fn the_documented_example_of_a_product_comes_out() {
    let e = engine();
    let a = e.from_vec(vec![11u8, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0], [4, 3]);
    let b = e.from_vec(vec![1u8, 4, 2, 5, 3, 6], [3, 2]);
    let (za, zb) = (e.from_vec(vec![12u8], [1]), e.from_vec(vec![0u8], [1]));
    let y = a.matmul_int(&b, Some(&za), Some(&zb));
    assert_eq!(y.to_vec::<i32>().unwrap(), [-38, -83, -44, -98, -50, -113, -56, -128]);
    let batches = a.unsqueeze(0).broadcast_to([2, 4, 3]).matmul_int(&b, Some(&za), None);
    assert_eq!(batches.shape()[..], [2, 4, 2]);
    assert_eq!(batches.to_vec::<i32>().unwrap()[8..], [-38, -83, -44, -98, -50, -113, -56, -128]);
    let row = a.slice(0, 0..1).reshape([3]).matmul_int(&b, Some(&za), None);
    assert_eq!((row.shape()[..].to_vec(), row.to_vec::<i32>().unwrap()), (vec![2], vec![-38, -83]));
}

#[test]
fn wrong_types_are_named() {
    let e = engine();
    let a = e.from_vec(vec![1u8, 2], [1, 2]);
    let text = a.matmul_int(&e.tensor(&[1.0, 2.0], [2, 1]), None, None).check().unwrap_err().to_string();
    assert!(text.contains("matmul_int(u8[1, 2], f32[2, 1])"), "{text}");
    let signed = e.from_vec(vec![1i8], ());
    let text = a.matmul_int(&a.t(), Some(&signed), None).check().unwrap_err().to_string();
    assert!(text.contains("a zero point of u8, not of i8"), "{text}");
    let x = e.tensor(&[1.0, 2.0], [2]);
    assert!(x.quantize_linear(&x.scalar(1.0), None, 0, DType::I32).check().is_err());
    assert!(x.quantize_linear(&e.tensor(&[1.0; 3], [3]), None, 0, DType::U8).check().is_err());
}

#[test]
fn numbers_are_quantised_to_even_and_saturate() {
    let e = engine();
    let x = e.tensor(&[0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0], [6]);
    let (scale, zero) = (e.tensor(&[2.0], [1]), e.from_vec(vec![128u8], [1]));
    let y = x.quantize_linear(&scale, Some(&zero), 1, DType::U8);
    assert_eq!(y.to_vec::<u8>().unwrap(), [128, 129, 130, 255, 1, 0]);
    let halves = e.tensor(&[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, f32::INFINITY, f32::NAN], [8]);
    let y = halves.quantize_linear(&halves.scalar(1.0), None, 0, DType::I8);
    assert_eq!(y.to_vec::<i8>().unwrap(), [0, 2, 2, 0, -2, -2, 127, 0]);
    let along = e.tensor(&[-162.0, 10.0, -100.0, 232.0, -20.0, -50.0], [1, 3, 2]);
    let (scales, zeros) = (e.tensor(&[2.0, 4.0, 5.0], [3]), e.from_vec(vec![84u8, 24, 196], [3]));
    let y = along.quantize_linear(&scales, Some(&zeros), 1, DType::U8);
    assert_eq!(y.to_vec::<u8>().unwrap(), [3, 89, 0, 82, 192, 186]);
    let back = y.dequantize_linear(&scales, Some(&zeros), -2);
    assert_eq!(back.to_vec::<f32>().unwrap(), [-162.0, 10.0, -96.0, 232.0, -20.0, -50.0]);
    let x = e.from_vec(vec![0u8, 3, 128, 255], [4]);
    let y = x.dequantize_linear(&scale, Some(&zero), 0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [-256.0, -250.0, 0.0, 254.0]);
}

#[test]
fn a_range_is_found_and_holds_zero() {
    let e = engine();
    let check = |x: &[f32], want: &[u8], want_scale: f32, want_zero: u8| {
        let (y, scale, zero) = e.tensor(x, [x.len()]).dynamic_quantize_linear();
        assert_eq!(y.to_vec::<u8>().unwrap(), want);
        assert!((scale.item::<f32>().unwrap() - want_scale).abs() < 1e-6);
        assert_eq!(zero.item::<u8>().unwrap(), want_zero);
    };
    check(&[0.0, 2.0, -3.0, -2.5, 1.34, 0.5], &[153, 255, 0, 26, 221, 179], 0.019_607_844, 153);
    check(&[-1.0, -2.1, -1.3, -2.5, -3.34, -4.0], &[191, 121, 172, 96, 42, 0], 0.015_686_275, 255);
    check(&[1.0, 2.1, 1.3, 2.5, 3.34, 4.0], &[64, 134, 83, 159, 213, 255], 0.015_686_275, 0);
    check(&[0.0, 0.0], &[0, 0], 0.0, 0);
}
