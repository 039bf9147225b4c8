//! Picking slices by index: a copy whose source lies where an index says.

use std::fmt::Write;

use breakeven_ir::{DType, Gather, Layout, Strides};

use super::map::{Reach, reach};
use super::{Dispatch, Plan, pack, word_output};
use crate::wgsl::{GROUP, Shader, Tensor, Walk, Width, bind, type_name};

/// Operands of the walk, all over the shape of the output.
const SOURCE: usize = 0;
const INDEX: usize = 1;
const OUT: usize = 2;

pub(super) fn plan(plan: &mut Plan, k: &Gather, inputs: &[Tensor], mut outs: Vec<Tensor>) {
    let out = outs.remove(0);
    let words = word_output(plan, &out);
    let extent = k.source.layout.shape[k.axis];
    let along = k.source.layout.strides[k.axis];
    let tensors = spread(k, inputs, words.clone());
    let walk = Walk::along(&out.layout.shape, &[&tensors[0].layout, &tensors[1].layout, &tensors[2].layout], OUT);
    let elements = out.layout.shape.elements() as u64;
    let quads = by_quads(&walk, &tensors, along);
    let mut shader = Shader::default();
    shader.arg("n", elements as u32);
    shader.arg("extent", extent as u32);
    shader.arg("along", along as u32);
    let has_source = extent > 0;
    let bound = tensors.iter().enumerate().skip(usize::from(!has_source));
    let wants: Vec<_> = bound.map(|(t, tensor)| (tensor, t == OUT, quads && t != INDEX)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    for (t, access) in (usize::from(!has_source)..).zip(&accesses) {
        walk.function(&mut shader, &format!("at{t}"), "w", t, access.offset);
        match (t, quads) {
            (OUT, true) => access.store_quad(&mut shader, "store"),
            (OUT, false) => access.store(&mut shader, "store"),
            (SOURCE, true) => access.load_quad(&mut shader, "load0"),
            _ => access.load(&mut shader, &format!("load{t}")),
        }
    }
    let main = write(&mut shader, &tensors, quads, has_source);
    let (text, args) = shader.finish(&main);
    let per_group = u64::from(GROUP) * if quads { 4 } else { 1 };
    plan.dispatches.push(Dispatch { text, args, bound, groups: elements.div_ceil(per_group), members: 1 });
    pack(plan, words, out);
}

/// Source, index and output over the shape of the output: the source does not move along index axes, nor the index along
/// the others.
fn spread(k: &Gather, inputs: &[Tensor], out: Tensor) -> Vec<Tensor> {
    let shape = &out.layout.shape;
    let picked = k.index.layout.shape.rank();
    let over = |tensor: &Tensor, strides: Strides| Tensor {
        layout: Layout { shape: shape.clone(), offset: tensor.layout.offset, strides },
        ..tensor.clone()
    };
    let own = &k.source.layout.strides;
    let source = own[..k.axis].iter().copied().chain(vec![0; picked]).chain(own[k.axis + 1..].iter().copied());
    let rest = shape.rank() - k.axis - picked;
    let index = vec![0; k.axis].into_iter().chain(k.index.layout.strides.iter().copied()).chain(vec![0; rest]);
    // The bound part must hold every slice, not those of index 0 alone.
    let mut source = over(&inputs[SOURCE], source.collect());
    source.whole = Some(k.source.layout.clone());
    vec![source, over(&inputs[INDEX], index.collect()), out]
}

/// True when four neighbours have one index and lie in aligned quads of source and output.
fn by_quads(walk: &Walk, tensors: &[Tensor], along: isize) -> bool {
    let is_quad = |t: usize| {
        let whole = walk.dims.iter().product::<usize>().is_multiple_of(4) && walk.inner().is_multiple_of(4);
        whole && matches!(reach(walk, t, &tensors[t]), Reach::Dense | Reach::Quad)
    };
    let words = tensors[SOURCE].stored.width() == Width::Word && tensors[OUT].stored.width() == Width::Word;
    let one = walk.strides[INDEX].last().is_none_or(|&s| s == 0);
    words && one && along % 4 == 0 && is_quad(SOURCE) && is_quad(OUT)
}

fn write(shader: &mut Shader, tensors: &[Tensor], quads: bool, has_source: bool) -> String {
    let stored = tensors[SOURCE].stored;
    let (per, kind) = if quads { (4, "vec4<u32>") } else { (1, type_name(stored.dtype)) };
    let nothing = match (quads, stored.dtype) {
        (true, DType::F32) => "vec4<u32>(2143289344u)".to_owned(),
        (_, DType::F64) => "vec2<u32>(0u, 0x7ff80000u)".to_owned(),
        (_, DType::F16) => "0x7e00u".to_owned(),
        (_, DType::BF16) => "0x7fc0u".to_owned(),
        (false, DType::F32) => {
            shader.need("f_bits");
            "f_bits(2143289344u)".to_owned()
        }
        _ => format!("{kind}()"),
    };
    // The high word of a 64-bit index must be the sign of the low one.
    let (index, is_wide) = match tensors[INDEX].stored.dtype {
        DType::I64 => ("bitcast<i32>(raw.x)", "raw.y == bitcast<u32>(picked >> 31u)"),
        _ => ("raw", "true"),
    };
    let mut main = format!(
        "let e = (group * {GROUP}u + lid) * {per}u;\nif e >= args.n {{ return; }}\nlet raw = load1(at1(e));\n\
         let picked = {index};\nlet place = bitcast<u32>(select(picked, picked + bitcast<i32>(args.extent), picked < 0));\n\
         var v = {nothing};\n"
    );
    if has_source {
        writeln!(main, "if {is_wide} && place < args.extent {{ v = load0(at0(e) + place * args.along); }}")
            .expect("strings take text");
    }
    main += if quads { "store(at2(e), v, 4u);\n" } else { "store(at2(e), v);\n" };
    main
}
