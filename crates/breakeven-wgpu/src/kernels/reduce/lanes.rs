//! Several invocations to a row: each folds four neighbours at a time, then they join in a tree.

use std::fmt::Write;

use super::super::Dispatch;
use super::super::rows::{lanes, tree};
use super::{Stage, algebra};
use crate::wgsl::{GROUP, Shader};

pub(super) fn dispatch(stage: &Stage<'_>) -> Dispatch {
    let lanes = lanes(stage.chunk.min(stage.length));
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let algebra = algebra::write(&mut shader, stage);
    tree(&mut shader, "fold", algebra.kind, "f_join", lanes);
    let mut main = start(stage, lanes);
    main += "var a0 = f_unit();\nvar a1 = f_unit();\nvar a2 = f_unit();\nvar a3 = f_unit();\n";
    if stage.length > 0 {
        each(stage, &mut shader, &mut main, lanes, &algebra);
    }
    main += "let a = tree_fold(lid, f_join(f_join(a0, a1), f_join(a2, a3)));\n";
    write!(main, "if is_row && lane == 0u {{\n{}}}\n", stage.finish(&algebra.fields, &algebra.done))
        .expect("strings take text");
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP / lanes)), members: 1 }
}

/// Which row, and which part of it: `r` is the row of the stage, `o` that of the kernel.
pub(super) fn start(stage: &Stage<'_>, lanes: u32) -> String {
    let whole = if stage.chunks() == 1 {
        "let o = min(r, args.outer - 1u);\nlet first = 0u;\nlet last = args.length;\n"
    } else {
        "let o = min(r / args.chunks, args.outer - 1u);\nlet first = (r % args.chunks) * args.chunk;\n\
         let last = min(first + args.chunk, args.length);\n"
    };
    format!(
        "let r = group * {}u + lid / {lanes}u;\nlet lane = lid % {lanes}u;\nlet is_row = r < args.rows;\n{whole}\
         let stop = select(0u, last, is_row);\n",
        GROUP / lanes
    )
}

/// Writes the loop that adds every element: by quads where the operands allow it.
fn each(stage: &Stage<'_>, shader: &mut Shader, main: &mut String, lanes: u32, algebra: &algebra::Algebra) {
    writeln!(main, "for (var i = first + lane * 4u; i < stop; i += {}u) {{", 4 * lanes).expect("strings take text");
    if stage.is_second {
        algebra::write_value(shader, stage, algebra);
        for l in 0..4 {
            let step = algebra::add(stage, &format!("a{l}"), &format!("f_value(o, i + {l}u)"), "i");
            writeln!(main, "if i + {l}u < stop {{ {step} }}").expect("strings take text");
        }
    } else {
        let count = stage.rows.tensors().len();
        (0..count).for_each(|t| stage.rows.fetch(main, t));
        for l in 0..4 {
            let operands: Vec<String> = (0..count).map(|t| format!("x{t}_{l}")).collect();
            let value = format!("pre({})", operands.join(", "));
            let step = algebra::add(stage, &format!("a{l}"), &value, &format!("i + {l}u"));
            writeln!(main, "if i + {l}u < stop {{ {step} }}").expect("strings take text");
        }
    }
    *main += "}\n";
}
