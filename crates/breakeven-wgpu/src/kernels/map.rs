//! Elementwise work over operands of any layout. One invocation computes a quad of elements where the output lies
//! densely, else one element.

use std::fmt::Write;

use breakeven_ir::{Body, DType, Map, Unsupported};

use super::{Dispatch, Plan, body_of};
use crate::wgsl::{GROUP, Shader, Tensor, Walk, Width, bind, function, type_name};

/// How the four elements of a quad find their value in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All elements are one.
    Splat,
    /// They lie as in the output: one aligned quad.
    Dense,
    /// The quad has one aligned quad, found by index.
    Quad,
    /// The quad has one element, found by index.
    One,
    /// Each has its own.
    Each,
}

pub(super) fn plan(plan: &mut Plan, k: &Map, inputs: Vec<Tensor>, mut outs: Vec<Tensor>) -> Result<(), Unsupported> {
    let body = body_of(&k.expr)?;
    push(plan, &body, &k.params, inputs, outs.remove(0))
}

/// Appends `out[i] = body(inputs[i]..)`.
pub(super) fn push(
    plan: &mut Plan,
    body: &Body,
    params: &[f64],
    inputs: Vec<Tensor>,
    out: Tensor,
) -> Result<(), Unsupported> {
    let tensors: Vec<Tensor> = inputs.into_iter().chain([out]).collect();
    let last = tensors.len() - 1;
    let layouts: Vec<_> = tensors.iter().map(|t| &t.layout).collect();
    let walk = Walk::along(&tensors[last].layout.shape, &layouts, last);
    let elements = tensors[last].layout.shape.elements() as u64;
    let quads = walk.is_dense(last) && tensors[last].is_aligned() && tensors[last].stored.width() != Width::Pair;
    if !quads && tensors[last].stored.width() == Width::Byte {
        let what = tensors[last].stored.dtype;
        return Err(Unsupported(format!("a GPU writes whole words, so an output of {what} must lie densely")));
    }
    let mut shader = Shader::default();
    shader.arg("n", elements as u32);
    let (main, bound) = if quads {
        by_quads(&mut shader, body, params, &tensors, &walk)
    } else {
        by_elements(&mut shader, body, params, &tensors, &walk)
    };
    let per_group = u64::from(GROUP) * if quads { 4 } else { 1 };
    let (text, args) = shader.finish(&main);
    plan.dispatches.push(Dispatch { text, args, bound, groups: elements.div_ceil(per_group) });
    Ok(())
}

type Written = (String, Vec<crate::wgsl::Bound>);

fn types(tensors: &[Tensor]) -> Vec<DType> {
    tensors[..tensors.len() - 1].iter().map(|t| t.stored.dtype).collect()
}

fn by_elements(shader: &mut Shader, body: &Body, params: &[f64], tensors: &[Tensor], walk: &Walk) -> Written {
    let last = tensors.len() - 1;
    let wants: Vec<_> = tensors.iter().enumerate().map(|(t, tensor)| (tensor, t == last, false)).collect();
    let (bound, accesses) = bind(shader, &wants);
    for (t, access) in accesses.iter().enumerate() {
        walk.function(shader, &format!("at{t}"), "w", t, access.offset);
        if t == last { access.store(shader, "store") } else { access.load(shader, &format!("load{t}")) }
    }
    function(shader, "element", &types(tensors), body, params);
    let operands: Vec<String> = (0..last).map(|t| format!("load{t}(at{t}(e))")).collect();
    let main = format!(
        "    let e = group * {GROUP}u + lid;\n    if e >= args.n {{ return; }}\n    \
         store(at{last}(e), element({}));\n",
        operands.join(", ")
    );
    (main, bound)
}

fn by_quads(shader: &mut Shader, body: &Body, params: &[f64], tensors: &[Tensor], walk: &Walk) -> Written {
    let last = tensors.len() - 1;
    let reaches: Vec<Reach> = (0..last).map(|t| reach(walk, t, &tensors[t])).collect();
    let by_quad = |t: usize| t == last || matches!(reaches[t], Reach::Dense | Reach::Quad);
    let wants: Vec<_> = tensors.iter().enumerate().map(|(t, tensor)| (tensor, t == last, by_quad(t))).collect();
    let (bound, accesses) = bind(shader, &wants);
    let mut main = format!(
        "    let e = (group * {GROUP}u + lid) * 4u;\n    if e >= args.n {{ return; }}\n    let n = args.n - 1u;\n"
    );
    for (t, access) in accesses[..last].iter().enumerate() {
        fetch(shader, &mut main, reaches[t], walk, t, access, &tensors[t]);
    }
    shader.arg("o", accesses[last].offset as u32);
    accesses[last].store_quad(shader, "store");
    function(shader, "element", &types(tensors), body, params);
    let lane = |l: usize| {
        let operands: Vec<String> = (0..last).map(|t| format!("x{t}_{l}")).collect();
        tensors[last].stored.as_word(&format!("element({})", operands.join(", ")))
    };
    writeln!(main, "    store(args.o + e, vec4<u32>({}, {}, {}, {}), args.n - e);", lane(0), lane(1), lane(2), lane(3))
        .expect("strings take text");
    (main, bound)
}

/// How quads of the walk reach input `t`.
pub(super) fn reach(walk: &Walk, t: usize, tensor: &Tensor) -> Reach {
    let strides = &walk.strides[t];
    let words = tensor.stored.width() != Width::Pair;
    let Some((&inner, outer)) = strides.split_last() else { return Reach::Splat };
    if strides.iter().all(|&s| s == 0) {
        return Reach::Splat;
    }
    if words && walk.is_dense(t) && tensor.is_aligned() {
        return Reach::Dense;
    }
    if !walk.inner().is_multiple_of(4) {
        return Reach::Each;
    }
    match inner {
        0 => Reach::One,
        1 if words && tensor.is_aligned() && outer.iter().all(|s| s % 4 == 0) => Reach::Quad,
        _ => Reach::Each,
    }
}

/// Writes the loads of input `t` as values `x{t}_0` to `x{t}_3`.
fn fetch(
    shader: &mut Shader,
    main: &mut String,
    reach: Reach,
    walk: &Walk,
    t: usize,
    access: &crate::wgsl::Access,
    tensor: &Tensor,
) {
    let kind = type_name(tensor.stored.dtype);
    match reach {
        Reach::Dense | Reach::Quad => access.load_quad(shader, &format!("quad{t}")),
        Reach::Splat | Reach::One | Reach::Each => access.load(shader, &format!("load{t}")),
    }
    if reach == Reach::Dense || reach == Reach::Splat {
        shader.arg(&format!("at{t}_o"), access.offset as u32);
    } else {
        walk.function(shader, &format!("at{t}"), "w", t, access.offset);
    }
    let from = match reach {
        Reach::Splat => format!("load{t}(args.at{t}_o)"),
        Reach::Dense => format!("quad{t}(args.at{t}_o + e)"),
        Reach::Quad => format!("quad{t}(at{t}(e))"),
        Reach::One => format!("load{t}(at{t}(e))"),
        Reach::Each => String::new(),
    };
    if reach != Reach::Each {
        writeln!(main, "    let q{t} = {from};").expect("strings take text");
    }
    for l in 0..4 {
        let value = match reach {
            Reach::Splat | Reach::One => format!("q{t}"),
            Reach::Dense | Reach::Quad => tensor.stored.of_word(&format!("q{t}[{l}]")),
            Reach::Each => format!("load{t}(at{t}(min(e + {l}u, n)))"),
        };
        writeln!(main, "    let x{t}_{l}: {kind} = {value};").expect("strings take text");
    }
}
