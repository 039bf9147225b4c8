//! Mean and variance in two passes over the same chunk, the second corrected by what the rounding of the mean left.

use std::fmt::Write;

use super::super::Dispatch;
use super::super::share::{Share, lanes as lanes_of, quads};
use super::{Stage, algebra};
use crate::wgsl::{GROUP, Shader};

/// From `mean`, and the sums of distances and of their squares from it, the results of a chunk of `count` elements.
/// An infinite mean stays one, and a square that rounding took below 0 is told by its bits: NaN is not below 0.
const RESULT: &str = "let rest = off / count;\n\
    let centre = select(mean, mean + rest, (bitcast<u32>(rest) & 0x7f800000u) != 0x7f800000u);\nlet is_far = (bitcast<u32>(squares) & 0x7f800000u) == 0x7f800000u;\n\
    let square = select(squares - off * rest, squares, is_far);\n\
    let sign = bitcast<u32>(square);\nlet held = select(square, 0.0, sign > 0x80000000u && sign <= 0xff800000u);\n";

fn results(stage: &Stage<'_>) -> String {
    let fields = ["centre".to_owned(), "held".to_owned()];
    stage.finish(&fields, &["centre".to_owned(), "(held / count)".to_owned()])
}

pub(super) fn lanes(stage: &Stage<'_>, is_terse: bool) -> Dispatch {
    let length = stage.chunk.min(stage.length);
    let lanes = lanes_of(length, quads(length, stage.rows.tensors().len()));
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let share = super::lanes::share(stage, &mut shader, lanes, is_terse);
    shader.function("f_plus", "fn f_plus(a: f32, b: f32) -> f32 { return a + b; }\n");
    share.tree(&mut shader, "sum", "f32", "f_plus");
    let mut main = super::lanes::start(stage, &share);
    main += "let count = f32(last - first);\nvar total = vec4<f32>();\n";
    each(stage, &mut main, &share, "total += select(vec4<f32>(), x, m);\n");
    main += "let mean = tree_sum(lid, (total.x + total.y) + (total.z + total.w)) / count;\n\
        var distance = vec4<f32>();\nvar square4 = vec4<f32>();\n";
    each(stage, &mut main, &share, "let d = select(vec4<f32>(), x - mean, m);\ndistance += d;\nsquare4 += d * d;\n");
    main += "let off = tree_sum(lid, (distance.x + distance.y) + (distance.z + distance.w));\n\
        let squares = tree_sum(lid, (square4.x + square4.y) + (square4.z + square4.w));\n";
    write!(main, "if is_row && lane == 0u {{\n{RESULT}{}}}\n", results(stage)).expect("strings take text");
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP / lanes)), members: 1 }
}

fn each(stage: &Stage<'_>, main: &mut String, share: &Share, step: &str) {
    if stage.length == 0 {
        return;
    }
    writeln!(main, "for (var i = first + lane * 4u; i < stop; i += {}) {{", share.span).expect("strings take text");
    let count = stage.rows.tensors().len();
    (0..count).for_each(|t| stage.rows.fetch(main, t));
    let lane = |l: usize| {
        let operands: Vec<String> = (0..count).map(|t| format!("x{t}_{l}")).collect();
        format!("pre({})", operands.join(", "))
    };
    write!(
        main,
        "let x = vec4<f32>({}, {}, {}, {});\n\
         let m = vec4<bool>(true, i + 1u < stop, i + 2u < stop, i + 3u < stop);\n{step}}}\n",
        lane(0),
        lane(1),
        lane(2),
        lane(3)
    )
    .expect("strings take text");
}

pub(super) fn columns(stage: &Stage<'_>) -> Dispatch {
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let none = algebra::Algebra { kind: "f32", fields: vec![], done: vec![] };
    algebra::write_value(&mut shader, stage, &none);
    let pass = |start: &str, step: &str, end: &str| {
        format!(
            "for (var b = first; b < last; b += 32u) {{\n{start}let stop = min(b + 32u, last);\n\
             for (var i = b; i < stop; i += 1u) {{ {step} }}\n{end}}}\n"
        )
    };
    let main = format!(
        "{}let count = f32(last - first);\nvar total = 0.0;\n{}let mean = total / count;\nvar off = 0.0;\nvar squares = 0.0;\n{}{RESULT}{}",
        super::columns::start(stage),
        pass("var part = 0.0;\n", "part += f_value(o, i);", "total += part;\n"),
        pass(
            "var part = 0.0;\nvar square2 = 0.0;\n",
            "let d = f_value(o, i) - mean; part += d; square2 += d * d;",
            "off += part;\nsquares += square2;\n"
        ),
        results(stage)
    );
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP)), members: 1 }
}
