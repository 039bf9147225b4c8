//! Bodies as WGSL functions.

use std::fmt::Write;

use breakeven_ir::{Body, DType, Inst, Prim, Scalar, Unsupported};

use super::{Shader, cast::cast, spell, type_name};

/// Writes `body` as a function called `name`, with the functions it needs; its parameters become arguments of the
/// shader.
pub fn function(shader: &mut Shader, name: &str, arguments: &[DType], body: &Body, params: &[f64]) {
    let inputs: Vec<String> = arguments.iter().enumerate().map(|(i, &d)| format!("a{i}: {}", type_name(d))).collect();
    let mut text = format!("fn {name}({}) -> {} {{\n", inputs.join(", "), type_name(body.dtype()));
    for (id, &(inst, dtype)) in body.insts().iter().enumerate() {
        let value = instruction(shader, name, body, inst, dtype, params);
        writeln!(text, "    let v{id} = {value};").expect("strings take text");
    }
    writeln!(text, "    return {};\n}}", result(shader, name, body)).expect("strings take text");
    shader.function(name, text);
}

/// What a function returns. A function of `math` keeps NaN (but for `pow`, which has exceptions of its own), whatever a
/// driver that assumes there is none makes of its steps.
fn result(shader: &mut Shader, name: &str, body: &Body) -> String {
    let last = body.insts().len() - 1;
    let arguments: Vec<String> = match name {
        "f_pow" => Vec::new(),
        _ if name.starts_with("f_") => (0..arity(body)).map(|i| format!("a{i}")).collect(),
        _ => Vec::new(),
    };
    let kept = arguments.iter().fold(format!("v{last}"), |kept, a| format!("select({kept}, {a}, f_isnan({a}))"));
    shader.need_called(&kept);
    kept
}

/// Arguments that a body reads.
fn arity(body: &Body) -> u16 {
    let argument = |&(inst, _): &(Inst, DType)| if let Inst::Arg(i) = inst { i + 1 } else { 0 };
    body.insts().iter().map(argument).max().unwrap_or(0)
}

/// Whether operand `place` of an f32 primitive is added to another: drivers take `(a + b) - a` for `b`, and
/// `n * c + (n * d + x)` for `n * (c + d) + x`, unless they are kept from seeing the sum inside the sum.
fn is_added(prim: Prim, place: usize) -> bool {
    match prim {
        Prim::Add | Prim::Sub => place < 2,
        Prim::MulAdd => place == 2,
        _ => false,
    }
}

/// The name of operand `place` of `prim`, hidden where `is_added` says so, and where a value meets itself: drivers take
/// `a - a` for 0 and `a / a` for 1 whatever `a` is.
fn operand(body: &Body, prim: Prim, place: usize, ids: [u32; 3]) -> String {
    let id = ids[place];
    let (inst, dtype) = body.insts()[id as usize];
    if place < 2 && ids[0] == ids[1] && dtype == DType::F32 && matches!(prim, Prim::Sub | Prim::Div | Prim::Quotient) {
        // On one side only: a value hidden twice the same way is one value again.
        return if place == 0 { format!("v{id}") } else { format!("f_hold(v{id})") };
    }
    let is_sum = matches!(inst, Inst::Prim(Prim::Add | Prim::Sub | Prim::MulAdd, _)) && dtype == DType::F32;
    let is_hidden = is_sum && is_added(prim, place) || is_multiplied_again(body, prim, place, ids);
    if is_hidden { format!("f_hold(v{id})") } else { format!("v{id}") }
}

/// Whether an f32 operand is a product that is multiplied by one of its factors once more, or by a quotient of it: drivers
/// take `(x * a) * a` for `x * (a * a)`, whose square may be denormal where the product is not.
fn is_multiplied_again(body: &Body, prim: Prim, place: usize, ids: [u32; 3]) -> bool {
    let (Inst::Prim(Prim::Mul, factors), DType::F32) = body.insts()[ids[place] as usize] else { return false };
    if prim != Prim::Mul || place > 1 {
        return false;
    }
    let other = ids[1 - place];
    let divided = match body.insts()[other as usize].0 {
        Inst::Prim(Prim::Div | Prim::Quotient, of) => of[0],
        _ => other,
    };
    factors[..2].contains(&other) || factors[..2].contains(&divided)
}

/// Why a body cannot be written, where it cannot.
pub fn check(body: &Body) -> Result<(), Unsupported> {
    let insts = body.insts();
    for &(inst, dtype) in insts {
        let known = match inst {
            Inst::Prim(prim, ids) => {
                let operand = insts[ids[usize::from(prim == Prim::Pick)] as usize].1;
                spell::is_spelled(prim, operand)
            }
            Inst::Cast(id) => cast("x", insts[id as usize].1, dtype).is_some(),
            Inst::Arg(_) | Inst::Param(_) | Inst::Const(_) => true,
        };
        if !known {
            let what = match inst {
                Inst::Prim(prim, ids) => format!("{prim:?} of {}", insts[ids[0] as usize].1),
                Inst::Cast(id) => format!("a cast from {} to {dtype}", insts[id as usize].1),
                other => format!("{other:?}"),
            };
            return Err(Unsupported(format!("WGSL has no 64-bit floats, so there is no {what}")));
        }
    }
    Ok(())
}

fn instruction(shader: &mut Shader, name: &str, body: &Body, inst: Inst, dtype: DType, params: &[f64]) -> String {
    let type_of = |id: u32| body.insts()[id as usize].1;
    match inst {
        Inst::Arg(i) => format!("a{i}"),
        Inst::Param(i) => parameter(shader, &format!("{name}_p{i}"), dtype, params[i as usize]),
        Inst::Const(c) => constant(shader, dtype, c),
        Inst::Cast(id) => {
            let text = cast(&format!("v{id}"), type_of(id), dtype).expect("casts were checked");
            shader.need_called(&text);
            text
        }
        Inst::Prim(prim, ids) => {
            let names = std::array::from_fn(|place| operand(body, prim, place, ids));
            let text = spell::spell(prim, type_of(ids[0]), &names);
            shader.define(prim);
            shader.need_called(&text);
            text
        }
    }
}

impl Shader {
    /// Writes the definition of a primitive that has one.
    pub fn define(&mut self, prim: Prim) {
        let name = super::functions::name(prim);
        if let Some(definition) = prim.definition()
            && !self.has_function(&name)
        {
            function(self, &name, &vec![DType::F32; prim.arity()], &definition, &[]);
        }
    }
}

/// The expression for a number of type `dtype`, which becomes an argument.
pub fn parameter(shader: &mut Shader, name: &str, dtype: DType, value: f64) -> String {
    let (low, high) = bits(dtype, value);
    shader.arg(name, low);
    match dtype {
        DType::F32 => format!("bitcast<f32>(args.{name})"),
        DType::I32 | DType::I16 | DType::I8 => format!("bitcast<i32>(args.{name})"),
        DType::Bool => format!("args.{name} != 0u"),
        DType::I64 | DType::U64 | DType::F64 => {
            shader.arg(&format!("{name}_high"), high);
            format!("vec2<u32>(args.{name}, args.{name}_high)")
        }
        _ => format!("args.{name}"),
    }
}

fn constant(shader: &mut Shader, dtype: DType, value: f64) -> String {
    let (low, high) = bits(dtype, value);
    match dtype {
        DType::F32 if f32::from_bits(low).is_normal() => format!("{:?}f", f32::from_bits(low)),
        DType::F32 if low == 0 => "0.0".to_owned(),
        DType::F32 => {
            shader.need("f_bits");
            format!("f_bits({low}u)")
        }
        DType::I32 | DType::I16 | DType::I8 => format!("i32({})", low.cast_signed()),
        DType::Bool => format!("{}", low != 0),
        DType::I64 | DType::U64 | DType::F64 => format!("vec2<u32>({low}u, {high}u)"),
        _ => format!("{low}u"),
    }
}

/// The bits in which a number of type `dtype` is worked on, in two words.
fn bits(dtype: DType, value: f64) -> (u32, u32) {
    let mut bytes = [0u8; 8];
    let held = if matches!(dtype, DType::I16 | DType::I8) { DType::I32 } else { dtype };
    Scalar::of(dtype, value).store(held, &mut bytes, 0);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}
