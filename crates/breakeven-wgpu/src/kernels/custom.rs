//! Operations of the user's own: their body as a function, between functions that find elements wherever they lie.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use breakeven_ir::{Custom, DType, ExprBuilder, Invocations, Scalar, Shape, Spec, Unsupported, Wgsl};

use super::{Dispatch, Plan, map, pack, word_output};
use crate::wgsl::{Access, FOREIGN, GROUP, Shader, Tensor, Walk, bind, cast, is_core, parameter, type_name, wrapped};

pub(super) fn plan(plan: &mut Plan, k: &Custom, inputs: Vec<Tensor>, outs: Vec<Tensor>) -> Result<(), Unsupported> {
    let code = k.op.wgsl_code().ok_or_else(|| Unsupported("no WGSL was given".to_owned()))?;
    let words: Vec<Tensor> = outs.iter().map(|out| word_output(plan, out)).collect();
    let invocations = invocations(k, code)?;
    if !code.stores_all() {
        for out in &words {
            clear(plan, out);
        }
    }
    if invocations > 0 {
        plan.dispatches.push(dispatch(k, code, &[inputs, words.clone()].concat(), invocations));
    }
    words.into_iter().zip(outs).for_each(|(words, out)| pack(plan, words, out));
    Ok(())
}

/// How often the body runs.
fn invocations(k: &Custom, code: &Wgsl) -> Result<u64, Unsupported> {
    let specs = |operands: &[breakeven_ir::Operand]| -> Vec<Spec> {
        operands.iter().map(|o| Spec::new(o.dtype, o.layout.shape.clone())).collect()
    };
    let (inputs, outputs) = (specs(&k.inputs), specs(&k.outs));
    let count = match code.invocations() {
        Invocations::EachElement if outputs.len() > 1 => {
            return Err(Unsupported(format!("its WGSL returns one element, and it has {} outputs", outputs.len())));
        }
        Invocations::EachElement => outputs[0].shape.elements() as u64,
        Invocations::Counted(count) => {
            let count = || count(&inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>());
            let panicked = |_| Unsupported("the count of its invocations panicked".to_owned());
            catch_unwind(AssertUnwindSafe(count)).map_err(panicked)?
        }
    };
    let fits = u32::try_from(count.next_multiple_of(u64::from(GROUP))).is_ok();
    if fits { Ok(count) } else { Err(Unsupported(format!("{count} invocations need more than 32 bits"))) }
}

/// Zeros, since not everything need be stored.
fn clear(plan: &mut Plan, out: &Tensor) {
    let mut builder = ExprBuilder::default();
    let zero = builder.param(out.stored.dtype);
    map::push(plan, &builder.finish(zero).lower(), &[0.0], vec![], out.clone());
}

fn dispatch(k: &Custom, code: &Wgsl, tensors: &[Tensor], invocations: u64) -> Dispatch {
    let mut shader = Shader::default();
    let first_out = k.inputs.len();
    shader.arg("be_count", invocations as u32);
    let wants: Vec<_> = tensors.iter().enumerate().map(|(t, tensor)| (tensor, t >= first_out, false)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    for (t, (tensor, access)) in tensors.iter().zip(&accesses).enumerate() {
        let side = if t < first_out { Side::Input(t) } else { Side::Output(t - first_out) };
        side.functions(&mut shader, tensor, access);
    }
    for (i, (&dtype, &value)) in k.op.param_types().iter().zip(&k.params).enumerate() {
        let (seen, value) = (seen(dtype), held(dtype, value));
        let value = parameter(&mut shader, &format!("be_p{i}"), seen, value);
        let kind = type_name(seen);
        shader.function(&format!("param{i}"), format!("fn param{i}() -> {kind} {{\n    return {value};\n}}\n"));
    }
    let main = write_body(&mut shader, code, seen(tensors[first_out].stored.dtype));
    let (text, args) = shader.finish(&main);
    let groups = invocations.div_ceil(u64::from(GROUP));
    Dispatch { text: format!("{FOREIGN}{text}"), args, bound, groups, members: 1 }
}

/// The user's functions and the body as one of ours; what calls it.
fn write_body(shader: &mut Shader, code: &Wgsl, out: DType) -> String {
    let (gives, call) = match code.invocations() {
        Invocations::EachElement => (format!(" -> {}", type_name(out)), "store0(be_i, be_user(be_i));"),
        Invocations::Counted(_) => (String::new(), "be_user(be_i);"),
    };
    let (functions, body) = (apart(code.functions()), apart(code.body()));
    shader.function("be_user", format!("{functions}fn be_user(i: u32){gives} {{\n{body}\n}}\n"));
    format!("let be_i = group * {GROUP}u + lid;\nif be_i >= args.be_count {{ return; }}\n{call}\n")
}

/// An input or an output, by number.
#[derive(Clone, Copy)]
enum Side {
    Input(usize),
    Output(usize),
}

impl Side {
    fn name(self) -> String {
        match self {
            Side::Input(n) => format!("input{n}"),
            Side::Output(n) => format!("output{n}"),
        }
    }

    /// The functions that the user's code calls for this tensor.
    fn functions(self, shader: &mut Shader, tensor: &Tensor, access: &Access) {
        let (name, dtype, shape) = (self.name(), tensor.stored.dtype, &tensor.layout.shape);
        let (seen, kind) = (seen(dtype), type_name(seen(dtype)));
        let place = format!("be_{name}_at");
        Walk::new(shape, &[&tensor.layout.strides]).function(shader, &place, &format!("be_{name}"), 0, access.offset);
        shader.arg(&format!("be_{name}_n"), shape.elements() as u32);
        let length = format!("fn {name}_len() -> u32 {{\n    return args.be_{name}_n;\n}}\n");
        let functions = length + &extents(shader, &name, shape);
        shader.function(&format!("{name}_len"), functions);
        match self {
            Side::Input(n) => {
                access.load(shader, &format!("be_{name}_get"));
                let value = converted(shader, &format!("be_{name}_get({place}(e))"), dtype, seen);
                let found = format!("if e < args.be_{name}_n {{ return {value}; }}");
                let text = format!("fn load{n}(e: u32) -> {kind} {{\n    {found}\n    return {kind}();\n}}\n");
                shader.function(&format!("load{n}"), text);
            }
            Side::Output(n) => {
                access.store(shader, &format!("be_{name}_put"));
                let value = wrapped(dtype, &converted(shader, "v", seen, dtype));
                let stored = format!("if e < args.be_{name}_n {{ be_{name}_put({place}(e), {value}); }}");
                let text = format!("fn store{n}(e: u32, v: {kind}) {{\n    {stored}\n}}\n");
                shader.function(&format!("store{n}"), text);
            }
        }
    }
}

/// The type in which the user's code sees elements of `dtype`: floats of 16 bits are widened.
fn seen(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

/// The expression `x` of type `from` as another type, and the functions that takes.
fn converted(shader: &mut Shader, x: &str, from: DType, to: DType) -> String {
    if from == to {
        return x.to_owned();
    }
    let text = cast(x, from, to).expect("floats of 16 bits become wider ones and come from them");
    shader.need_called(&text);
    text
}

/// A number as its type holds it.
fn held(dtype: DType, number: f64) -> f64 {
    let mut bytes = [0; 8];
    Scalar::of(dtype, number).store(dtype, &mut bytes, 0);
    Scalar::load(dtype, &bytes, 0).to_f64()
}

fn extents(shader: &mut Shader, name: &str, shape: &Shape) -> String {
    let mut text = format!("fn {name}_extent(axis: u32) -> u32 {{\n    switch axis {{\n");
    for (axis, &extent) in shape.iter().enumerate() {
        shader.arg(&format!("be_{name}_e{axis}"), extent as u32);
        writeln!(text, "        case {axis}u: {{ return args.be_{name}_e{axis}; }}").expect("strings take text");
    }
    text + "        default: { return 1u; }\n    }\n}\n"
}

/// The user's text with names of its own where it has picked one of ours.
fn apart(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c| !is_part(c)) {
        let name = word.trim_end_matches(|c| !is_part(c));
        out += name;
        out += if is_ours(name) { "_of_user" } else { "" };
        out += &word[name.len()..];
    }
    out
}

/// Whether the module has something of this name that is not for the user.
fn is_ours(name: &str) -> bool {
    let is_binding = name.strip_prefix('b').is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()));
    matches!(name, "Args" | "args" | "main") || name.starts_with("be_") || is_binding || is_core(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_become_names_of_the_users() {
        assert_eq!(
            apart("let args = main(b0, b, be_i);"),
            "let args_of_user = main_of_user(b0_of_user, b, be_i_of_user);"
        );
        assert_eq!(apart("return load0(i)"), "return load0(i)");
    }
}
