//! Elementwise work over operands of any layout. One invocation computes a quad of elements where the output lies
//! densely, else one element.

use std::fmt::Write;

use breakeven_ir::{Body, DType, Map, Unsupported};

use super::tiled::Tiling;
use super::{Dispatch, Plan, body_of};
use crate::wgsl::{
    Access, GROUP, Shader, Stored, Tensor, Walk, Want, Width, bind_members, declare, finish, function, type_name,
};

/// How the four elements of a quad find their value in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// All elements are one.
    Splat,
    /// They lie as in the output: one aligned quad.
    Dense,
    /// The quad has one aligned quad, found by index.
    Quad,
    /// The quad has one element, found by index.
    One,
    /// Each has its own.
    Each,
}

/// A map over operands of its own; several of one form share a dispatch.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub form: Form,
    params: &'a [f64],
    /// Inputs, then the output.
    tensors: Vec<Tensor>,
    walk: Walk,
}

/// What the text depends on besides the body: members of one form differ in data alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// One invocation computes four elements.
    quads: bool,
    /// Tiles pass through workgroup memory.
    tiling: Option<Tiling>,
    axes: usize,
    reaches: Vec<Reach>,
    stored: Vec<Stored>,
}

pub(super) fn plan(plan: &mut Plan, k: &Map, inputs: Vec<Tensor>, mut outs: Vec<Tensor>) -> Result<(), Unsupported> {
    let body = body_of(&k.expr)?;
    push(plan, &body, &k.params, inputs, outs.remove(0));
    Ok(())
}

/// Appends `out[i] = body(inputs[i]..)`.
pub(super) fn push(plan: &mut Plan, body: &Body, params: &[f64], inputs: Vec<Tensor>, out: Tensor) {
    plan.dispatches.push(dispatch(body, &[Member::new(params, inputs, out)]));
}

/// The map over the slots of a launch.
pub(super) fn member<'a>(k: &'a Map, inputs: &[usize], out: usize) -> Member<'a> {
    let inputs = k.inputs.iter().zip(inputs).map(|(o, &slot)| Tensor::slot(o, slot)).collect();
    Member::new(&k.params, inputs, Tensor::slot(&k.out, out))
}

/// Members of one form, which run `body` without seeing each other.
pub(super) fn dispatch(body: &Body, members: &[Member<'_>]) -> Dispatch {
    let wants: Vec<_> = members.iter().map(Member::wants).collect();
    let (bound, accesses) = bind_members(&wants);
    let mut mains = Vec::new();
    let mut shaders = Vec::new();
    for (member, accesses) in members.iter().zip(&accesses) {
        let mut shader = Shader::default();
        declare(&mut shader, &bound);
        mains.push(member.write(&mut shader, body, accesses));
        shaders.push(shader);
    }
    let (text, args) = finish(shaders, &mains[0]);
    let groups = members.iter().map(Member::groups).max().unwrap_or(0);
    Dispatch { text, args, bound, groups, members: members.len() as u32 }
}

impl<'a> Member<'a> {
    fn new(params: &'a [f64], inputs: Vec<Tensor>, out: Tensor) -> Member<'a> {
        let tensors: Vec<Tensor> = inputs.into_iter().chain([out]).collect();
        let last = tensors.len() - 1;
        let layouts: Vec<_> = tensors.iter().map(|t| &t.layout).collect();
        let walk = Walk::along(&tensors[last].layout.shape, &layouts, last);
        let stored: Vec<Stored> = tensors.iter().map(|t| t.stored).collect();
        let tiling = is_of_words(&walk, last, stored[last]).then(|| Tiling::new(&walk)).flatten();
        let quads = tiling.is_none()
            && walk.is_dense(last)
            && tensors[last].is_aligned()
            && stored[last].width() != Width::Pair;
        let by_quads = if quads { last } else { 0 };
        let reaches = (0..by_quads).map(|t| reach(&walk, t, &tensors[t])).collect();
        let form = Form { quads, tiling, axes: walk.dims.len(), reaches, stored };
        Member { form, params, tensors, walk }
    }

    fn elements(&self) -> u64 {
        self.tensors[self.last()].layout.shape.elements() as u64
    }

    fn last(&self) -> usize {
        self.tensors.len() - 1
    }

    /// Workgroups that compute it.
    pub fn groups(&self) -> u64 {
        if let Some(tiling) = &self.form.tiling {
            return tiling.groups(&self.walk);
        }
        self.elements().div_ceil(u64::from(GROUP) * if self.form.quads { 4 } else { 1 })
    }

    /// What it binds.
    pub fn wants(&self) -> Vec<Want<'_>> {
        let last = self.last();
        let by_quad = |t: usize| t == last || matches!(self.form.reaches[t], Reach::Dense | Reach::Quad);
        let want = |(t, tensor)| (tensor, t == last, self.form.quads && by_quad(t));
        self.tensors.iter().enumerate().map(want).collect()
    }

    fn write(&self, shader: &mut Shader, body: &Body, accesses: &[Access]) -> String {
        if let Some(tiling) = &self.form.tiling {
            function(shader, "element", &types(&self.tensors), body, self.params);
            return tiling.write(shader, &self.walk, &self.tensors, accesses);
        }
        shader.arg("n", self.elements() as u32);
        if self.form.quads { self.by_quads(shader, body, accesses) } else { self.by_elements(shader, body, accesses) }
    }

    fn by_elements(&self, shader: &mut Shader, body: &Body, accesses: &[Access]) -> String {
        let last = self.last();
        for (t, access) in accesses.iter().enumerate() {
            self.walk.function(shader, &format!("at{t}"), "w", t, access.offset);
            if t == last { access.store(shader, "store") } else { access.load(shader, &format!("load{t}")) }
        }
        function(shader, "element", &types(&self.tensors), body, self.params);
        let operands: Vec<String> = (0..last).map(|t| format!("load{t}(at{t}(e))")).collect();
        format!(
            "    let e = group * {GROUP}u + lid;\n    if e >= args.n {{ return; }}\n    \
             store(at{last}(e), element({}));\n",
            operands.join(", ")
        )
    }

    fn by_quads(&self, shader: &mut Shader, body: &Body, accesses: &[Access]) -> String {
        let last = self.last();
        let mut main = format!(
            "    let e = (group * {GROUP}u + lid) * 4u;\n    if e >= args.n {{ return; }}\n    let n = args.n - 1u;\n"
        );
        for (t, access) in accesses[..last].iter().enumerate() {
            fetch(shader, &mut main, self.form.reaches[t], &self.walk, t, access, &self.tensors[t]);
        }
        shader.arg("o", accesses[last].offset as u32);
        accesses[last].store_quad(shader, "store");
        function(shader, "element", &types(&self.tensors), body, self.params);
        let lane = |l: usize| {
            let operands: Vec<String> = (0..last).map(|t| format!("x{t}_{l}")).collect();
            self.tensors[last].stored.as_word(&format!("element({})", operands.join(", ")))
        };
        writeln!(
            main,
            "    store(args.o + e, vec4<u32>({}, {}, {}, {}), args.n - e);",
            lane(0),
            lane(1),
            lane(2),
            lane(3)
        )
        .expect("strings take text");
        main
    }
}

/// True where operand `t` is dense and neighbours do not share words, so that any invocation may write any element.
fn is_of_words(walk: &Walk, t: usize, stored: Stored) -> bool {
    walk.is_dense(t) && !stored.is_packed()
}

/// How quads of the walk reach input `t`.
pub(super) fn reach(walk: &Walk, t: usize, tensor: &Tensor) -> Reach {
    let strides = &walk.strides[t];
    let words = tensor.stored.width() != Width::Pair;
    let Some((&inner, outer)) = strides.split_last() else { return Reach::Splat };
    if strides.iter().all(|&s| s == 0) {
        return Reach::Splat;
    }
    if words && walk.is_dense(t) && tensor.is_aligned() {
        return Reach::Dense;
    }
    if !walk.inner().is_multiple_of(4) {
        return Reach::Each;
    }
    match inner {
        0 => Reach::One,
        1 if words && tensor.is_aligned() && outer.iter().all(|s| s % 4 == 0) => Reach::Quad,
        _ => Reach::Each,
    }
}

/// Writes the loads of input `t` as values `x{t}_0` to `x{t}_3`.
fn fetch(
    shader: &mut Shader,
    main: &mut String,
    reach: Reach,
    walk: &Walk,
    t: usize,
    access: &Access,
    tensor: &Tensor,
) {
    let kind = type_name(tensor.stored.dtype);
    match reach {
        Reach::Dense | Reach::Quad => access.load_quad(shader, &format!("quad{t}")),
        Reach::Splat | Reach::One | Reach::Each => access.load(shader, &format!("load{t}")),
    }
    if reach == Reach::Dense || reach == Reach::Splat {
        shader.arg(&format!("at{t}_o"), access.offset as u32);
    } else {
        walk.function(shader, &format!("at{t}"), "w", t, access.offset);
    }
    let from = match reach {
        Reach::Splat => format!("load{t}(args.at{t}_o)"),
        Reach::Dense => format!("quad{t}(args.at{t}_o + e)"),
        Reach::Quad => format!("quad{t}(at{t}(e))"),
        Reach::One => format!("load{t}(at{t}(e))"),
        Reach::Each => String::new(),
    };
    if reach != Reach::Each {
        writeln!(main, "    let q{t} = {from};").expect("strings take text");
    }
    for l in 0..4 {
        let value = match reach {
            Reach::Splat | Reach::One => format!("q{t}"),
            Reach::Dense | Reach::Quad => tensor.stored.of_word(&format!("q{t}[{l}]")),
            Reach::Each => format!("load{t}(at{t}(min(e + {l}u, n)))"),
        };
        writeln!(main, "    let x{t}_{l}: {kind} = {value};").expect("strings take text");
    }
}

fn types(tensors: &[Tensor]) -> Vec<DType> {
    tensors[..tensors.len() - 1].iter().map(|t| t.stored.dtype).collect()
}
