//! Sums over parts of the keys brought to one largest score and added.

use breakeven_ir::{AttentionKernel, Body, DType};

use super::super::matmul::finish;
use super::super::rows::Rows;
use super::super::{Dispatch, Plan};
use super::{rows_of, text};
use crate::wgsl::{GROUP, Shader, Tensor, bind, function};

const MAIN: &str = "let n = group * 256u + lid;
let row = n / args.quads;
let column = n % args.quads * 4u;
if row < args.rows {
var top = f_bits(0xff800000u);
for (var p = row; p < args.ends; p += args.rows) { top = max(top, bitcast<f32>(quad_tops(args.tops + p * 4u).x)); }
let base = f_base(top);
var total = 0.0;
var sum = vec4<f32>();
for (var p = row; p < args.ends; p += args.rows) {
let part = bitcast<vec4<f32>>(quad_tops(args.tops + p * 4u));
let weight = f_decay(part.x - base);
total += weight * part.y;
sum += weight * bitcast<vec4<f32>>(quad_sums(args.sums + p * args.wide + column));
}
finish(row, column, sum * f_share(total));
}
";

/// Appends the sums of the parts in scratch memory, each row of which has its largest score and its sum of weights in `tops`.
pub(super) fn push(plan: &mut Plan, k: &AttentionKernel, [sums, tops]: [&Tensor; 2], out: Tensor, post: &Body) {
    let mut shader = Shader::default();
    let (rows, quads) = (rows_of(k), k.value_width().div_ceil(4));
    let (parts, wide) = (sums.layout.shape[0], sums.layout.shape[1]);
    let sizes = [k.value_width(), rows, quads, parts, wide];
    for (name, size) in ["length", "rows", "quads", "ends", "wide"].iter().zip(sizes) {
        shader.arg(name, size as u32);
    }
    let shape = out.layout.shape.clone();
    let (outer, inner) = shape.split_at(shape.rank() - 1);
    let ends = Rows::new(outer, inner, vec![out]);
    let wants: Vec<_> = [(sums, false, true), (tops, false, true)].into_iter().chain(ends.wants(0)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    for (name, access) in ["sums", "tops"].iter().zip(&accesses) {
        access.load_quad(&mut shader, &format!("quad_{name}"));
        shader.arg(name, access.offset as u32);
    }
    ends.functions(&mut shader, 0, &accesses[2], true);
    function(&mut shader, "post", &[DType::F32], post, &[]);
    finish(&mut shader, &ends, DType::F32);
    text::functions(&mut shader);
    let (text, args) = shader.finish(MAIN);
    let groups = ((rows * quads) as u64).div_ceil(u64::from(GROUP));
    plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
}
