//! One invocation to a row, for short rows and for rows whose neighbours lie nearer than their elements.

use super::super::Dispatch;
use super::{Stage, algebra};
use crate::wgsl::{GROUP, Shader};

/// Elements that are folded together before they join the rest, so that errors grow with the root of the length.
const BLOCK: u32 = 32;

pub(super) fn dispatch(stage: &Stage<'_>) -> Dispatch {
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let algebra = algebra::write(&mut shader, stage);
    algebra::write_value(&mut shader, stage, &algebra);
    let step = algebra::add(stage, "part", "f_value(o, i)", "i");
    let main = format!(
        "{}var a = f_unit();\nfor (var b = first; b < last; b += {BLOCK}u) {{\nvar part = f_unit();\n\
         let stop = min(b + {BLOCK}u, last);\nfor (var i = b; i < stop; i += 1u) {{ {step} }}\na = f_join(a, part);\n}}\n{}",
        start(stage),
        stage.finish(&algebra.fields, &algebra.done)
    );
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP)), members: 1 }
}

/// Which row, and which part of it. Neighbouring invocations take neighbouring rows.
pub(super) fn start(stage: &Stage<'_>) -> String {
    let whole = if stage.chunks() == 1 {
        "let o = n;\nlet r = n;\nlet first = 0u;\nlet last = args.length;\n"
    } else {
        "let o = n % args.outer;\nlet r = o * args.chunks + n / args.outer;\nlet first = (n / args.outer) * args.chunk;\n\
         let last = min(first + args.chunk, args.length);\n"
    };
    format!("let n = group * {GROUP}u + lid;\nif n >= args.rows {{ return; }}\n{whole}")
}
