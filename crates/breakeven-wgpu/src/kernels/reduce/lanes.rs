//! Several invocations to a row: each folds four neighbours at a time, then they join in a tree.

use std::fmt::Write;

use super::super::Dispatch;
use super::super::share::{Share, lanes, quads};
use super::{Stage, algebra};
use crate::wgsl::{GROUP, Shader};

pub(super) fn dispatch(stage: &Stage<'_>, is_terse: bool) -> Dispatch {
    let length = stage.chunk.min(stage.length);
    let lanes = lanes(length, quads(length, stage.rows.tensors().len()));
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let share = share(stage, &mut shader, lanes, is_terse);
    let algebra = algebra::write(&mut shader, stage);
    share.tree(&mut shader, "fold", algebra.kind, "f_join");
    let mut main = start(stage, &share);
    main += "var a0 = f_unit();\nvar a1 = f_unit();\nvar a2 = f_unit();\nvar a3 = f_unit();\n";
    if stage.length > 0 {
        each(stage, &mut shader, &mut main, (&share, is_terse), &algebra);
    }
    main += "let a = tree_fold(lid, f_join(f_join(a0, a1), f_join(a2, a3)));\n";
    write!(main, "if is_row && lane == 0u {{\n{}}}\n", stage.finish(&algebra.fields, &algebra.done))
        .expect("strings take text");
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP / lanes)), members: 1 }
}

/// How chunks are shared: those of long rows by whole workgroups.
pub(super) fn share(stage: &Stage<'_>, shader: &mut Shader, lanes: u32, is_terse: bool) -> Share {
    if stage.chunks() > 1 && lanes == GROUP { Share::of_group() } else { Share::new(shader, lanes, is_terse) }
}

/// Which row, and which part of it: `r` is the row of the stage, `o` that of the kernel.
pub(super) fn start(stage: &Stage<'_>, share: &Share) -> String {
    let whole = if stage.chunks() == 1 {
        "let o = min(r, args.outer - 1u);\nlet first = 0u;\nlet last = args.length;\n"
    } else {
        "let o = min(r / args.chunks, args.outer - 1u);\nlet first = (r % args.chunks) * args.chunk;\n\
         let last = min(first + args.chunk, args.length);\n"
    };
    format!("{}{whole}let stop = select(0u, last, is_row);\n", share.place("r"))
}

/// Quads that are loaded before the first of them is added, so that memory is not waited for one quad at a time.
const AT_ONCE: u32 = 4;

/// Writes the loops that add every element: several quads at a time, then one by one up to the end.
fn each(
    stage: &Stage<'_>,
    shader: &mut Shader,
    main: &mut String,
    (share, is_terse): (&Share, bool),
    algebra: &algebra::Algebra,
) {
    if stage.is_second {
        algebra::write_value(shader, stage, algebra);
    }
    let (far, span) = (AT_ONCE - 1, &share.span);
    *main += "var i = first + lane * 4u;\n";
    if !is_terse {
        writeln!(main, "for (; i + {far}u * {span} + 3u < stop; i += {AT_ONCE}u * {span}) {{")
            .expect("strings take text");
        for quad in 0..AT_ONCE {
            writeln!(main, "{{\nlet at = i + {quad}u * {span};\n{{\nlet i = at;").expect("strings take text");
            add_quad(stage, main, |step, _| format!("{step}\n"));
            *main += "}\n}\n";
        }
        *main += "}\n";
    }
    writeln!(main, "for (; i < stop; i += {span}) {{").expect("strings take text");
    add_quad(stage, main, |step, l| format!("if i + {l}u < stop {{ {step} }}\n"));
    *main += "}\n";
}

/// Writes the four steps that add the quad at `i`, each as `around` has it.
fn add_quad(stage: &Stage<'_>, main: &mut String, around: impl Fn(&str, u32) -> String) {
    let count = stage.rows.tensors().len();
    if !stage.is_second {
        (0..count).for_each(|t| stage.rows.fetch(main, t));
    }
    for l in 0..4 {
        let (a, place) = (format!("a{l}"), format!("i + {l}u"));
        let value = if stage.is_second {
            format!("f_value(o, {place})")
        } else {
            let operands: Vec<String> = (0..count).map(|t| format!("x{t}_{l}")).collect();
            format!("pre({})", operands.join(", "))
        };
        *main += &around(&algebra::add(stage, &a, &value, &place), l);
    }
}
