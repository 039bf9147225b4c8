//! One invocation to a row, for short rows and for rows whose neighbours lie nearer than their elements.

use super::super::Dispatch;
use super::{Stage, algebra};
use crate::wgsl::{GROUP, Shader};

/// Elements that are folded together before they join the rest, so that errors grow with the root of the length.
const BLOCK: u32 = 32;
/// Elements that are loaded before the first of them is added.
const AT_ONCE: u32 = 8;

pub(super) fn dispatch(stage: &Stage<'_>, is_terse: bool) -> Dispatch {
    let mut shader = Shader::default();
    let bound = stage.begin(&mut shader);
    let algebra = algebra::write(&mut shader, stage);
    algebra::write_value(&mut shader, stage, &algebra);
    let step = algebra::add(stage, "part", "f_value(o, i)", "i");
    let main = format!(
        "{}var a = f_unit();\nfor (var b = first; b < last; b += {BLOCK}u) {{\nvar part = f_unit();\n\
         let stop = min(b + {BLOCK}u, last);\nvar i = b;\n{}\
         for (; i < stop; i += 1u) {{ {step} }}\na = f_join(a, part);\n}}\n{}",
        start(stage),
        if stage.length > BLOCK as usize && !is_terse { several(stage) } else { String::new() },
        stage.finish(&algebra.fields, &algebra.done)
    );
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(GROUP)), members: 1 }
}

/// The loop that loads several elements before it adds the first.
fn several(stage: &Stage<'_>) -> String {
    let load = |l: u32| format!("let v{l} = f_value(o, i + {l}u);\n");
    let add = |l: u32| algebra::add(stage, "part", &format!("v{l}"), &format!("i + {l}u")) + "\n";
    let steps = (0..AT_ONCE).map(load).chain((0..AT_ONCE).map(add)).collect::<Vec<_>>().concat();
    format!("for (; i + {}u < stop; i += {AT_ONCE}u) {{\n{steps}}}\n", AT_ONCE - 1)
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
