//! One invocation to a row, for short rows and for rows whose neighbours lie nearer than their elements; several to one, in slices,
//! where rows are too few to keep a device busy: each waits for its memory alone.

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
    let finish = stage.finish(&algebra.fields, &algebra.done);
    let fold = fold(stage, is_terse);
    let columns = GROUP / stage.slices as u32;
    let main = if stage.slices == 1 {
        format!("{}{fold}{finish}", start(stage))
    } else {
        shader.shared("slices", &format!("array<{}, {GROUP}>", algebra.kind));
        shader.arg("columns", columns);
        shader.arg("column_bits", columns.ilog2());
        shader.arg("slice_bits", stage.slices.ilog2());
        format!(
            "{SLICED_START}{}{SLICE}{fold}{}if is_row && slice == 0u {{\na = slices[lid];\n{finish}}}\n",
            place(stage),
            joined()
        )
    };
    let (text, args) = shader.finish(&main);
    Dispatch { text, args, bound, groups: stage.count().div_ceil(u64::from(columns)), members: 1 }
}

/// Writes the loops that fold the elements from `first` to `last` into `a`.
fn fold(stage: &Stage<'_>, is_terse: bool) -> String {
    let step = algebra::add(stage, "part", "f_value(o, i)", "i");
    let is_long = stage.slices > 1 || stage.chunk.min(stage.length) >= BLOCK as usize;
    format!(
        "var a = f_unit();\nfor (var b = first; b < last; b += {BLOCK}u) {{\nvar part = f_unit();\n\
         let stop = min(b + {BLOCK}u, last);\nvar i = b;\n{}\
         for (; i < stop; i += 1u) {{ {step} }}\na = f_join(a, part);\n}}\n",
        if is_long && !is_terse { several(stage) } else { String::new() },
    )
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
    let place = place(stage);
    format!(
        "let n = group * {GROUP}u + lid;\nif n >= args.rows {{ return; }}\n{place}let first = whole.x;\nlet last = whole.y;\n"
    )
}

/// Writes the row `o` of the kernel and `r` of the stage that `n` stands for, and from where to where it goes, as `whole`.
fn place(stage: &Stage<'_>) -> &'static str {
    if stage.chunks() == 1 {
        "let o = n;\nlet r = n;\nlet whole = vec2<u32>(0u, args.length);\n"
    } else {
        "let o = n % args.outer;\nlet r = o * args.chunks + n / args.outer;\nlet begin = (n / args.outer) * args.chunk;\n\
         let whole = vec2<u32>(begin, min(begin + args.chunk, args.length));\n"
    }
}

/// Which row, where several invocations that are `columns` apart share one; how many do is data. None returns before the others have met.
const SLICED_START: &str = "let slice = lid >> args.column_bits;\n\
    let at = group * args.columns + (lid & (args.columns - 1u));\nlet is_row = at < args.rows;\nlet n = min(at, args.rows - 1u);\n";

/// Which part of it.
const SLICE: &str = "let each = (whole.y - whole.x + (1u << args.slice_bits) - 1u) >> args.slice_bits;\n\
    let first = min(whole.x + slice * each, whole.y);\nlet last = select(first, min(first + each, whole.y), is_row);\n";

/// Writes how the slices of each row join, halves at a time, in the first of them.
fn joined() -> String {
    format!(
        "slices[lid] = a;\nworkgroupBarrier();\nfor (var half = {}u; half >= args.columns; half /= 2u) {{\n\
         if lid < half {{ slices[lid] = f_join(slices[lid], slices[lid + half]); }}\nworkgroupBarrier();\n}}\n",
        GROUP / 2
    )
}
