//! Softmax and norms. A row is held in registers where it fits, else read again in each pass.

use std::fmt::Write;

use breakeven_ir::{Body, DType, RowWise, RowWiseKernel, Unsupported};

use super::rows::{Rows, types};
use super::share::{Share, lanes, most_quads, quads};
use super::{Dispatch, Plan, body_of, long_rows, pack, quad_output};
use crate::wgsl::{GROUP, Shader, Tensor, bind, function};

/// Most quads of a row that one invocation holds; longer rows are read again.
const MOST_HELD: usize = 16;

/// The larger one; of NaN and a number either.
const MOST: &str = "fn f_most(a: f32, b: f32) -> f32 { return max(a, b); }\n";

/// e^x of what is not above 0, of the parts that the row `exp` has, but 0 where that is below the normal numbers: beside the largest
/// element of a row, which gives 1, that is nothing. NaN stays: its comparison is one of bits.
const DECAY: &str = "fn f_decay(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let is_small = size - 0x42aeac50u <= 0x7f800000u - 0x42aeac50u;
    return select(exp_rest(x) * bitcast<f32>(u32(i32(exp_power(x)) + 127) << 23u), 0.0, is_small);
}
";

/// Writes `f_decay` and what it calls.
pub(super) fn decay(shader: &mut Shader) {
    let [power, rest] = Body::exp_parts();
    shader.need("f_bits");
    function(shader, "exp_power", &[DType::F32], &power, &[]);
    function(shader, "exp_rest", &[DType::F32], &rest, &[]);
    shader.function("f_decay", DECAY);
}

/// Iterations that some drivers do in one loop: they stop silently after as many.
const MOST_ITERATIONS: usize = 65_535;

pub(super) fn plan(
    plan: &mut Plan,
    k: &RowWiseKernel,
    inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    if k.pre.dtype() != DType::F32 {
        return Err(Unsupported(format!("WGSL has no 64-bit floats, so there is no {} of f64", k.kind.name())));
    }
    let out = outs.remove(0);
    if long_rows::has(k) {
        return long_rows::plan(plan, k, inputs, out);
    }
    let operands = inputs.len();
    let lanes = lanes(k.length, quads(k.length, operands));
    if k.length.div_ceil(4 * lanes as usize) > MOST_ITERATIONS {
        return Err(Unsupported(format!("a row of {} elements is longer than one workgroup works on", k.length)));
    }
    let (pre, post) = (body_of(&k.pre)?, body_of(&k.post)?);
    let words = quad_output(plan, &out, k.outer.rank());
    let rows = Rows::new(&k.outer, &[k.length], inputs.into_iter().chain([words.clone()]).collect());
    let count = k.outer.elements() as u64;
    let mut shader = Shader::default();
    shader.arg("rows", count as u32);
    shader.arg("length", k.length as u32);
    let held = held(k.length, lanes, operands).filter(|held| *held == 1 || !plan.is_terse);
    let share = share(&mut shader, lanes, held, plan.is_terse);
    let (bound, accesses) = bind(&mut shader, &rows.wants(rows.tensors().len() - 1));
    let last = accesses.len() - 1;
    accesses.iter().enumerate().for_each(|(t, access)| rows.functions(&mut shader, t, access, t == last));
    let main = Writer { k, rows: &rows, share: &share, held }.main(&mut shader, &pre, &post);
    let (text, args) = shader.finish(&main);
    plan.dispatches.push(Dispatch { text, args, bound, groups: count.div_ceil(u64::from(GROUP / lanes)), members: 1 });
    pack(plan, words, out);
    Ok(())
}

/// Quads that each invocation holds, of which there is a text for each number: some may lie behind the end of its row. `None` for a row
/// that does not fit.
fn held(length: usize, lanes: u32, operands: usize) -> Option<usize> {
    let quads = length.div_ceil(4 * lanes as usize).next_power_of_two();
    let held = if quads == 1 { 1 } else { quads.max(most_quads(operands)) };
    (held <= MOST_HELD).then_some(held)
}

/// Rows of which each invocation has more than the usual number of quads are shared by whole workgroups.
fn share(shader: &mut Shader, lanes: u32, held: Option<usize>, is_terse: bool) -> Share {
    let is_group = lanes == GROUP && !is_terse && held.is_none_or(|held| held > most_quads(1));
    if is_group { Share::of_group() } else { Share::new(shader, lanes, is_terse) }
}

struct Writer<'a> {
    k: &'a RowWiseKernel,
    rows: &'a Rows,
    share: &'a Share,
    held: Option<usize>,
}

impl Writer<'_> {
    fn main(&self, shader: &mut Shader, pre: &Body, post: &Body) -> String {
        let args = self.k.pre.args().len();
        let (pre_params, post_params) = self.k.params.split_at(self.k.pre.params());
        let tensors = self.rows.tensors();
        function(shader, "pre", self.k.pre.args(), pre, pre_params);
        function(shader, "post", self.k.post.args(), post, post_params);
        let mut main = self.share.place("row");
        main += "let o = min(row, args.rows - 1u);\nlet length = select(0u, args.length, is_row);\n";
        debug_assert_eq!(types(&tensors[..args]), self.k.pre.args());
        let lanes = &self.share.lanes;
        if let Some(quads) = self.held {
            for q in 0..quads {
                writeln!(main, "var h{q} = vec4<f32>();\n{{\nlet i = ({q}u * {lanes} + lane) * 4u;\nif i < length {{")
                    .expect("strings take text");
                self.load(&mut main, &format!("h{q}"));
                main += "}\n}\n";
            }
        }
        match self.k.kind {
            RowWise::Softmax => self.softmax(shader, &mut main, false),
            RowWise::LogSoftmax => self.softmax(shader, &mut main, true),
            RowWise::LayerNorm { epsilon } => self.layer_norm(shader, &mut main, epsilon as f32),
            RowWise::RmsNorm { epsilon } => self.rms_norm(shader, &mut main, epsilon as f32),
        }
        main
    }

    /// Loads the quad at `i`, through `pre`, into the variable `into`.
    fn load(&self, main: &mut String, into: &str) {
        let args = self.k.pre.args().len();
        (0..args).for_each(|t| self.rows.fetch(main, t));
        let lane = |l: usize| {
            let operands: Vec<String> = (0..args).map(|t| format!("x{t}_{l}")).collect();
            format!("pre({})", operands.join(", "))
        };
        writeln!(main, "{into} = vec4<f32>({}, {}, {}, {});", lane(0), lane(1), lane(2), lane(3))
            .expect("strings take text");
    }

    /// Writes `step` for each quad `x` of the row, with `m` true where an element is one of the row's. `step` may change
    /// `x`, which later passes see only where the row is held.
    fn each(&self, main: &mut String, step: &str) {
        let mask = if self.is_whole() {
            "let m = vec4<bool>(true);\n"
        } else {
            "let m = vec4<bool>(true, i + 1u < length, i + 2u < length, i + 3u < length);\n"
        };
        if let Some(quads) = self.held {
            let lanes = &self.share.lanes;
            for q in 0..quads {
                write!(
                    main,
                    "{{\nlet i = ({q}u * {lanes} + lane) * 4u;\nif i < length {{\n{mask}var x = h{q};\n{step}h{q} = x;\n}}\n}}\n"
                )
                .expect("strings take text");
            }
            return;
        }
        let span = &self.share.span;
        write!(main, "for (var i = lane * 4u; i < length; i += {span}) {{\n{mask}var x = vec4<f32>();\n")
            .expect("strings take text");
        self.load(main, "x");
        writeln!(main, "{step}}}").expect("strings take text");
    }

    /// Writes the pass that stores `value` of each quad `x`, through `post`.
    fn store(&self, main: &mut String, value: &str) {
        let first = self.k.pre.args().len();
        let last = self.rows.tensors().len() - 1;
        let mut step = format!("let y = {value};\n");
        (first..last).for_each(|t| self.rows.fetch(&mut step, t));
        for l in 0..4 {
            let extras: Vec<String> = (first..last).map(|t| format!(", x{t}_{l}")).collect();
            writeln!(step, "let y{l} = post(y[{l}]{});", extras.concat()).expect("strings take text");
        }
        self.rows.keep(&mut step, last);
        self.each(main, &step);
    }

    /// No quad reaches behind the end of its row.
    fn is_whole(&self) -> bool {
        self.k.length.is_multiple_of(4)
    }

    fn sum_tree(&self, shader: &mut Shader) {
        shader.function("f_plus", "fn f_plus(a: f32, b: f32) -> f32 { return a + b; }\n");
        self.share.tree(shader, "sum", "f32", "f_plus");
    }

    /// NaN need not survive the search for the largest element: it makes the sum NaN, and with it the whole row.
    fn softmax(&self, shader: &mut Shader, main: &mut String, logarithm: bool) {
        shader.function("f_most", MOST);
        decay(shader);
        shader.define(breakeven_ir::Prim::Ln);
        self.share.tree(shader, "max", "f32", "f_most");
        self.sum_tree(shader);
        *main += "let low = f_bits(0xff800000u);\nvar tops = vec4<f32>(low);\n";
        let seen = if self.is_whole() { "x" } else { "select(vec4<f32>(low), x, m)" };
        self.each(main, &format!("tops = max(tops, {seen});\n"));
        *main += "let top = tree_max(lid, max(max(tops.x, tops.y), max(tops.z, tops.w)));\nvar total = vec4<f32>();\n";
        let held = self.held.is_some() && !logarithm;
        let keep = if held { "x = e;\n" } else { "" };
        let exp = "vec4<f32>(f_decay(x.x - top), f_decay(x.y - top), f_decay(x.z - top), f_decay(x.w - top))";
        let part = if self.is_whole() { "e" } else { "select(vec4<f32>(), e, m)" };
        self.each(main, &format!("let e = {exp};\n{keep}total += {part};\n"));
        *main += "let sum = tree_sum(lid, (total.x + total.y) + (total.z + total.w));\nlet share = 1.0 / sum;\n";
        match (logarithm, held) {
            (true, _) => {
                *main += "let log_sum = f_ln(sum);\n";
                self.store(main, "(x - top) - log_sum");
            }
            (false, true) => self.store(main, "x * share"),
            (false, false) => self.store(main, &format!("{exp} * share")),
        }
    }

    /// The largest magnitude, and the power of two that keeps squares finite, as `scale`.
    fn scale(&self, shader: &mut Shader, main: &mut String) {
        shader.function("f_most", MOST);
        let text = "fn f_scale(most: f32) -> f32 {\n    let e = (bitcast<u32>(most) >> 23u) & 255u;\n    \
            return select(1.0, bitcast<f32>((254u - min(e, 253u)) << 23u), e > 180u && e < 255u);\n}\n";
        shader.function("f_scale", text);
        self.share.tree(shader, "most", "f32", "f_most");
        *main += "let scale = f_scale(tree_most(lid, max(max(most.x, most.y), max(most.z, most.w))));\n";
    }

    fn layer_norm(&self, shader: &mut Shader, main: &mut String, epsilon: f32) {
        self.sum_tree(shader);
        self.norm_args(shader, epsilon);
        *main += "var most = vec4<f32>();\nvar total = vec4<f32>();\n";
        self.each(
            main,
            "let v = select(vec4<f32>(), x, m);\nmost = max(most, abs(v));\n\
             total += v * bitcast<f32>(args.shrink);\n",
        );
        self.scale(shader, main);
        *main += "let mean = tree_sum(lid, (total.x + total.y) + (total.z + total.w)) * bitcast<f32>(args.grow) * scale;\n\
            var off = vec4<f32>();\nvar square = vec4<f32>();\n";
        self.each(main, "let d = select(vec4<f32>(), x * scale - mean, m);\noff += d;\nsquare += d * d;\n");
        *main += "let count = f32(args.length);\n\
            let centre = tree_sum(lid, (off.x + off.y) + (off.z + off.w)) / count;\n\
            let squares = tree_sum(lid, (square.x + square.y) + (square.z + square.w));\n\
            let variance = squares / count - centre * centre;\n\
            let spread = select(variance, 0.0, variance < 0.0) + bitcast<f32>(args.epsilon) * scale * scale;\n\
            let deviation = sqrt(select(spread, max(spread, 1e-30), scale != 1.0));\nlet grow = 1.0 / deviation;\n";
        self.store(main, "((x * scale - mean) - centre) * grow");
    }

    fn rms_norm(&self, shader: &mut Shader, main: &mut String, epsilon: f32) {
        self.sum_tree(shader);
        self.norm_args(shader, epsilon);
        *main += "var most = vec4<f32>();\n";
        self.each(main, "most = max(most, abs(select(vec4<f32>(), x, m)));\n");
        self.scale(shader, main);
        *main += "var square = vec4<f32>();\n";
        self.each(main, "let d = select(vec4<f32>(), x * scale, m);\nsquare += d * d;\n");
        *main += "let squares = tree_sum(lid, (square.x + square.y) + (square.z + square.w));\n\
            let spread = squares / f32(args.length) + bitcast<f32>(args.epsilon) * scale * scale;\n\
            let deviation = sqrt(select(spread, max(spread, 1e-30), scale != 1.0));\nlet grow = 1.0 / deviation;\n";
        self.store(main, "(x * scale) * grow");
    }

    /// The mean is the sum of `x * shrink`, times `grow`: no sum of finite elements overflows.
    fn norm_args(&self, shader: &mut Shader, epsilon: f32) {
        let shrink = 1.0 / self.k.length.max(1).next_power_of_two() as f32;
        shader.arg("shrink", shrink.to_bits());
        shader.arg("grow", (1.0 / (shrink * self.k.length as f32)).to_bits());
        shader.arg("epsilon", epsilon.to_bits());
    }
}
