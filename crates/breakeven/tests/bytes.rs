//! Every element type comes in and out of the engine, as elements and as bytes.

use breakeven::{DType, Element, Engine, HostBytes, Spec, bf16, f16};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU is there")
}

/// Six elements in, as elements and as bytes at every alignment; out in order, transposed and backwards.
fn check<T: Element>(elements: [T; 6]) {
    let engine = engine();
    let bytes: Vec<u8> = bytemuck::cast_slice(&elements).to_vec();
    let spec = Spec::new(T::DTYPE, [2, 3]);
    assert_eq!(engine.from_vec(elements.to_vec(), [2, 3]).to_bytes().expect("bytes"), bytes, "{}", T::DTYPE);
    for pad in 0..8 {
        let padded = HostBytes::from([vec![0u8; pad], bytes.clone()].concat()).slice(pad..pad + bytes.len());
        let tensor = engine.tensor_from_bytes(spec.clone(), padded).expect("the right number of bytes");
        assert_eq!(tensor.to_vec::<T>().expect("elements"), elements, "{}", T::DTYPE);
        let turned = [0, 3, 1, 4, 2, 5].map(|i| elements[i]);
        let want: &[u8] = bytemuck::cast_slice(&turned);
        assert_eq!(tensor.t().to_bytes().expect("bytes"), want, "{} transposed", T::DTYPE);
        assert_eq!(tensor.flip(0).flip(1).to_vec::<T>().expect("elements")[0], elements[5], "{} backwards", T::DTYPE);
    }
}

#[test]
fn every_element_type_comes_out_as_it_went_in() {
    check([0.0, -1.5, f64::MAX, f64::MIN_POSITIVE, 1e-310, f64::INFINITY]);
    check([0.0, -1.5, f32::MAX, f32::MIN_POSITIVE, 1e-40, f32::INFINITY]);
    check([0.0, -1.5, 65504.0, 6e-8, -6e-5, f32::INFINITY].map(f16::from_f32));
    check([0.0, -1.5, 3e38, 1e-40, -6e-5, f32::INFINITY].map(bf16::from_f32));
    check([0, -1, i64::MAX, i64::MIN, 1 << 33, 7]);
    check([0, -1, i32::MAX, i32::MIN, 1 << 17, 7]);
    check([0, -1, i16::MAX, i16::MIN, 1 << 9, 7]);
    check([0, -1, i8::MAX, i8::MIN, 1 << 5, 7]);
    check([0, 1, u64::MAX, 1 << 63, 1 << 33, 7]);
    check([0, 1, u32::MAX, 1 << 31, 1 << 17, 7]);
    check([0, 1, u16::MAX, 1 << 15, 1 << 9, 7]);
    check([0, 1, u8::MAX, 1 << 7, 1 << 5, 7]);
    check([true, false, true, true, false, false]);
}

#[test]
fn bytes_on_the_host_are_not_copied_where_they_lie_in_order() {
    let given = HostBytes::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let tensor = engine().from_bytes(given.clone(), Spec::new(DType::F32, [3, 2]));
    assert_eq!(tensor.host_bytes().unwrap().as_ptr(), given.as_ptr());
    let rows = tensor.slice(0, 1..3).host_bytes().unwrap();
    assert_eq!((rows.as_ptr(), rows.elements::<f32>()), (given[8..].as_ptr(), &[3.0, 4.0, 5.0, 6.0][..]));
    assert_eq!(tensor.t().host_bytes().unwrap().elements::<f32>(), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    assert_eq!((tensor + 1.0).host_bytes().unwrap().elements::<f32>(), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn nothing_is_no_bytes() {
    for dtype in DType::ALL {
        let none = engine().tensor_from_bytes(Spec::new(dtype, [0, 3]), Vec::<u8>::new()).expect("nothing is fine");
        assert_eq!(none.to_bytes().expect("nothing"), [] as [u8; 0]);
        assert!(none.host_bytes().expect("nothing").is_empty());
    }
}

#[test]
fn wrong_bytes_are_an_error_that_says_why() {
    let error = |dtype, bytes: Vec<u8>| {
        let spec = Spec::new(dtype, [2]);
        engine().tensor_from_bytes(spec, bytes).expect_err("wrong bytes").to_string()
    };
    assert!(error(DType::I16, vec![0; 5]).contains("i16[2] needs 4 bytes, 5 were given"));
    assert!(error(DType::Bool, vec![1, 2]).contains("neither 0 nor 1"));
}
