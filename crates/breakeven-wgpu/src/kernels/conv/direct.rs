//! Convolutions with few outputs for each window: an invocation sums four neighbouring results term by term.

use std::fmt::Write;

use breakeven_ir::{Body, ConvKernel, DType};

use super::super::matmul::finish;
use super::super::rows::Rows;
use super::super::{Dispatch, Plan};
use super::windows::{axes, inside, starts, widened};
use crate::wgsl::{Access, GROUP, Shader, Tensor, Walk, bind, function, type_name};

/// Appends the convolution, each row of the result (all places of one output channel) in quads.
pub(super) fn push(
    plan: &mut Plan,
    k: &ConvKernel,
    inputs: &[Tensor],
    (extras, out): (Vec<Tensor>, Tensor),
    post: &Body,
) {
    let (outer, places) = k.out.layout.shape.split_at(ConvKernel::LEAD);
    let ends = Rows::new(outer, places, extras.into_iter().chain([out]).collect());
    let mut shader = Shader::default();
    let length = places.iter().product::<usize>();
    let (rows, quads) = (outer.iter().product::<usize>(), length.div_ceil(4));
    for (name, size) in [("length", length), ("quads", quads), ("total", rows * quads)] {
        shader.arg(name, size as u32);
    }
    let has_terms = !k.x.layout.shape.is_empty() && k.terms() > 0;
    let sources = if has_terms { inputs } else { &[] };
    let last = ends.tensors().len() - 1;
    let wants: Vec<_> = sources.iter().map(|tensor| (tensor, false, false)).chain(ends.wants(last)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    let (from, to) = accesses.split_at(sources.len());
    to.iter().enumerate().for_each(|(t, access)| ends.functions(&mut shader, t, access, t == last));
    let dtype = k.accumulator();
    let arguments: Vec<DType> =
        [dtype].into_iter().chain(ends.tensors()[..last].iter().map(|t| t.stored.dtype)).collect();
    function(&mut shader, "post", &arguments, post, &k.params);
    finish(&mut shader, &ends, dtype);
    let mut main = format!(
        "let e = group * {GROUP}u + lid;\nif e >= args.total {{ return; }}\nlet o = e / args.quads;\n\
         let i = (e % args.quads) * 4u;\nvar sum = vec4<{}>();\n",
        type_name(dtype)
    );
    if has_terms {
        bases(&mut shader, k, from);
        sum(&mut main, &mut shader, k, inputs);
    }
    main += "finish(o, i, sum);\n";
    let (text, args) = shader.finish(&main);
    plan.dispatches.push(Dispatch {
        text,
        args,
        bound,
        groups: ((rows * quads) as u64).div_ceil(u64::from(GROUP)),
        members: 1,
    });
}

/// Writes `base0` and `base1`: where the channels begin that a row of the result sees, and its weights.
fn bases(shader: &mut Shader, k: &ConvKernel, accesses: &[Access]) {
    let (x, weight) = (&k.x.layout.strides, &k.weight.layout.strides);
    let rows = &k.out.layout.shape[..ConvKernel::LEAD];
    let walk = Walk::new(rows, &[&[x[0], x[1], 0], &[0, weight[0], weight[1]]]);
    for (t, access) in accesses.iter().enumerate() {
        walk.function(shader, &format!("base{t}"), "rows", t, access.offset);
        access.load(shader, &format!("operand{t}"));
    }
}

/// Writes the loops over channels and the elements of a window.
fn sum(main: &mut String, shader: &mut Shader, k: &ConvKernel, inputs: &[Tensor]) {
    let dtype = k.accumulator();
    let (x, weight) = (&k.x.layout, &k.weight.layout);
    axes(shader, k);
    for (name, value) in
        [("channels", weight.shape[2] as u32), ("xc", x.strides[2] as u32), ("wc", weight.strides[2] as u32)]
    {
        shader.arg(name, value);
    }
    let mut text = format!(
        "let x0 = base0(o);\nlet w0 = base1(o);\n{}\
         for (var c = 0u; c < args.channels; c += 1u) {{\nlet w = w0 + c * args.wc;\nlet x = x0 + c * args.xc;\n",
        starts(k, "i")
    );
    for axis in 0..k.along.len() {
        shader.arg(&format!("ws{axis}"), weight.strides[axis + ConvKernel::LEAD] as u32);
        writeln!(
            text,
            "for (var j{axis} = 0u; j{axis} < args.size{axis}; j{axis} += 1u) {{\n\
             let p{axis} = start{axis} + vec4<u32>(j{axis} * args.dilation{axis});"
        )
        .expect("strings take text");
    }
    let steps: Vec<String> = (0..k.along.len()).map(|a| format!("j{a} * args.ws{a}")).collect();
    let factor = widened(shader, inputs[1].stored.dtype, dtype, &format!("operand1(w + {})", steps.join(" + ")));
    writeln!(text, "let f = {factor};").expect("strings take text");
    for l in 0..4 {
        let (is_inside, at) = inside(k, l);
        let value = widened(shader, inputs[0].stored.dtype, dtype, &format!("operand0(x + {at})"));
        let zero = format!("{}(0)", type_name(dtype));
        writeln!(text, "var v{l} = {zero};\nif {is_inside} {{ v{l} = {value}; }}\nsum[{l}] += v{l} * f;")
            .expect("strings take text");
    }
    text += &"}\n".repeat(k.along.len() + 1);
    *main += &text;
}
