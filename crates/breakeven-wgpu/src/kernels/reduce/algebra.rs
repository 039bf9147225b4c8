//! Folds as algebra: an accumulator, what starts it, how an element joins it, how two of them join.

use breakeven_ir::{DType, Fold};

use super::Stage;
use crate::wgsl::{Shader, type_name, wrapped};

/// What an accumulator is made of, for the scratch memory between two stages.
pub(super) fn fields(fold: Fold, dtype: DType) -> Vec<DType> {
    match fold {
        Fold::ArgMax | Fold::ArgMin => vec![dtype, DType::U32],
        Fold::Moments => vec![DType::F32, DType::F32],
        _ => vec![dtype],
    }
}

/// Names in the shader of what belongs to one fold.
pub(super) struct Algebra {
    /// Type of the accumulator.
    pub kind: &'static str,
    /// Fields of `a`, for scratch memory.
    pub fields: Vec<String>,
    /// Results of `a`.
    pub done: Vec<String>,
}

/// Writes `f_unit()`, `f_put(a, v, i)` and `f_join(a, b)`.
pub(super) fn write(shader: &mut Shader, stage: &Stage<'_>) -> Algebra {
    match stage.k.fold {
        Fold::ArgMax | Fold::ArgMin => places(shader, stage),
        Fold::Moments => merged_moments(shader, stage),
        Fold::All | Fold::Any => truths(shader, stage),
        _ => values(shader, stage),
    }
}

fn define(shader: &mut Shader, kind: &str, value: &str, unit: &str, put: &str, join: &str) {
    let text = format!(
        "fn f_unit() -> {kind} {{ return {unit}; }}\n\
         fn f_join(a: {kind}, b: {kind}) -> {kind} {{\n{join}\n}}\n\
         fn f_put(a: {kind}, v: {value}, i: u32) -> {kind} {{ return {put}; }}\n"
    );
    shader.function("f_join", text);
}

fn values(shader: &mut Shader, stage: &Stage<'_>) -> Algebra {
    let dtype = stage.dtype();
    let kind = joining(shader, stage.k.fold, dtype);
    let done = if stage.k.fold == Fold::Mean { "(a / f32(args.total))".to_owned() } else { wrapped(dtype, "a") };
    shader.arg("total", stage.k.inner.elements() as u32);
    Algebra { kind, fields: vec!["a".to_owned()], done: vec![done] }
}

/// Writes `f_unit()`, `f_put(a, v, i)` and `f_join(a, b)` for a sum, product or extreme; gives their type.
pub(in crate::kernels) fn joining(shader: &mut Shader, fold: Fold, dtype: DType) -> &'static str {
    let kind = type_name(dtype);
    let float = dtype == DType::F32;
    let extreme = |name: &str, plain: &str| {
        if float { format!("return {name}(a, b);") } else { format!("return {plain}(a, b);") }
    };
    let (unit, join) = match fold {
        Fold::Sum | Fold::Mean => (format!("{kind}(0)"), "return a + b;".to_owned()),
        Fold::Prod => (format!("{kind}(1)"), "return a * b;".to_owned()),
        Fold::Max => (lowest(dtype).to_owned(), extreme("f_larger", "max")),
        _ => (highest(dtype).to_owned(), extreme("f_smaller", "min")),
    };
    shader.need("f_bits");
    shader.need_called(&join);
    define(shader, kind, kind, &unit, "f_join(a, v)", &join);
    kind
}

fn lowest(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f_bits(0xff800000u)",
        DType::I32 => "i32(-2147483648)",
        DType::I16 => "-32768",
        DType::I8 => "-128",
        _ => "0u",
    }
}

fn highest(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f_bits(0x7f800000u)",
        DType::I32 => "2147483647",
        DType::I16 => "32767",
        DType::I8 => "127",
        DType::U16 => "65535u",
        DType::U8 => "255u",
        _ => "4294967295u",
    }
}

fn truths(shader: &mut Shader, stage: &Stage<'_>) -> Algebra {
    let (unit, operator) = if stage.k.fold == Fold::All { ("1u", "&") } else { ("0u", "|") };
    let join = format!("return a {operator} b;");
    define(shader, "u32", "bool", unit, "f_join(a, select(0u, 1u, v))", &join);
    Algebra { kind: "u32", fields: vec!["(a != 0u)".to_owned()], done: vec!["(a != 0u)".to_owned()] }
}

/// The first NaN, else the best value, else the lowest index; index `!0` is no element.
fn places(shader: &mut Shader, stage: &Stage<'_>) -> Algebra {
    let kind = type_name(stage.dtype());
    let sign = if stage.k.fold == Fold::ArgMax { ">" } else { "<" };
    let nan = if stage.dtype() == DType::F32 {
        shader.need("f_isnan");
        "    let an = f_isnan(a.v);\n    let bn = f_isnan(b.v);\n    if an != bn { if an { return a; } return b; }\n    \
         if an { if a.i < b.i { return a; } return b; }\n"
    } else {
        ""
    };
    shader.function("Place", format!("struct Place {{ v: {kind}, i: u32 }}\n"));
    let join = format!(
        "    if a.i == 4294967295u {{ return b; }}\n    if b.i == 4294967295u {{ return a; }}\n{nan}    \
         if a.v {sign} b.v {{ return a; }}\n    if b.v {sign} a.v {{ return b; }}\n    \
         if a.i < b.i {{ return a; }}\n    return b;"
    );
    define(shader, "Place", kind, &format!("Place({kind}(), 4294967295u)"), "f_join(a, Place(v, i))", &join);
    let fields = vec!["a.v".to_owned(), "a.i".to_owned()];
    Algebra { kind: "Place", fields, done: vec!["vec2<u32>(a.i, 0u)".to_owned()] }
}

/// Joins the moments of chunks, whose lengths follow from their numbers.
fn merged_moments(shader: &mut Shader, stage: &Stage<'_>) -> Algebra {
    shader.arg("total", stage.k.inner.elements() as u32);
    shader.function("Part", "struct Part { n: f32, mean: f32, square: f32 }\n");
    let join = "    if a.n == 0.0 { return b; }\n    if b.n == 0.0 { return a; }\n    let n = a.n + b.n;\n    \
        let d = b.mean - a.mean;\n    let part = b.n / n;\n    \
        let is_far = (bitcast<u32>(d) & 0x7f800000u) == 0x7f800000u;\n    \
        return Part(n, select(a.mean + d * part, a.mean + b.mean, is_far), a.square + b.square + d * d * a.n * part);";
    define(shader, "Part", "Part", "Part(0.0, 0.0, 0.0)", "f_join(a, v)", join);
    Algebra {
        kind: "Part",
        fields: vec!["a.mean".to_owned(), "a.square".to_owned()],
        done: vec!["a.mean".to_owned(), "(a.square / f32(args.total))".to_owned()],
    }
}

/// Writes `f_value(o, i)`: what is put into the accumulator for element `i` of row `o`; in a second stage, what an earlier
/// one left there, as an accumulator.
pub(super) fn write_value(shader: &mut Shader, stage: &Stage<'_>, algebra: &Algebra) {
    let load = super::Rows::value;
    let (kind, value) = match (stage.is_second, stage.k.fold) {
        (false, _) => (type_name(stage.dtype()), stage.value()),
        (true, Fold::ArgMax | Fold::ArgMin) => ("Place", format!("Place({}, {})", load(0), load(1))),
        (true, Fold::Moments) => {
            shader.arg("first_chunk", stage.before as u32);
            let n = "f32(min(args.first_chunk, args.total - i * args.first_chunk))";
            ("Part", format!("Part({n}, {}, {})", load(0), load(1)))
        }
        (true, Fold::All | Fold::Any) => ("u32", format!("select(0u, 1u, {})", load(0))),
        (true, _) => (algebra.kind, load(0)),
    };
    shader.function("f_value", format!("fn f_value(o: u32, i: u32) -> {kind} {{ return {value}; }}\n"));
}

/// The call that adds element `i` of row `o` to the accumulator `a`.
pub(super) fn add(stage: &Stage<'_>, a: &str, value: &str, i: &str) -> String {
    if stage.is_second { format!("{a} = f_join({a}, {value});") } else { format!("{a} = f_put({a}, {value}, {i});") }
}
