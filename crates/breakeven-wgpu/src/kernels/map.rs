//! Elementwise work over operands of any layout. One invocation computes one or two quads of elements where the output lies
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
    /// One invocation computes four elements at a time.
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
    let dispatch = dispatch(body, &[Member::new(params, inputs, out)], plan.is_terse);
    plan.dispatches.push(dispatch);
}

/// The map over the slots of a launch.
pub(super) fn member<'a>(k: &'a Map, inputs: &[usize], out: usize) -> Member<'a> {
    let inputs = k.inputs.iter().zip(inputs).map(|(o, &slot)| Tensor::slot(o, slot)).collect();
    Member::new(&k.params, inputs, Tensor::slot(&k.out, out))
}

/// Members of one form, which run `body` without seeing each other.
pub(super) fn dispatch(body: &Body, members: &[Member<'_>], is_terse: bool) -> Dispatch {
    let wants: Vec<_> = members.iter().map(Member::wants).collect();
    let (bound, accesses) = bind_members(&wants);
    let by_quads = members.first().is_some_and(|m| m.form.quads) && !is_terse;
    let quads = if by_quads { quads_of(body, members[0].last()) } else { 1 };
    let mut mains = Vec::new();
    let mut shaders = Vec::new();
    for (member, accesses) in members.iter().zip(&accesses) {
        let mut shader = Shader::default();
        declare(&mut shader, &bound);
        mains.push(member.write(&mut shader, body, accesses, quads));
        shaders.push(shader);
    }
    let (text, args) = finish(shaders, &mains[0]);
    let groups = members.iter().map(|m| m.groups().div_ceil(quads as u64)).max().unwrap_or(0);
    Dispatch { text, args, bound, groups, members: members.len() as u32 }
}

/// Arithmetic of an element from which on an invocation computes two quads, so that more is on its way from memory while it does:
/// on an H200, a gelu of 67M elements takes 135 us instead of 146, while additions gain nothing.
const LONG_BODY: u64 = 16;
/// Operands of which two quads fit the registers.
const FEW_INPUTS: usize = 4;

/// Quads of the output that one invocation computes.
fn quads_of(body: &Body, inputs: usize) -> usize {
    if body.flops() >= LONG_BODY && inputs <= FEW_INPUTS { 2 } else { 1 }
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

    /// Workgroups that compute it, a quad or an element in each invocation.
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

    fn write(&self, shader: &mut Shader, body: &Body, accesses: &[Access], quads: usize) -> String {
        if let Some(tiling) = &self.form.tiling {
            function(shader, "element", &types(&self.tensors), body, self.params);
            return tiling.write(shader, &self.walk, &self.tensors, accesses);
        }
        shader.arg("n", self.elements() as u32);
        if self.form.quads {
            self.by_quads(shader, body, accesses, quads)
        } else {
            self.by_elements(shader, body, accesses)
        }
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

    /// All quads of an invocation are fetched before the first is computed. Those past the end are the last one again, and are not
    /// stored.
    fn by_quads(&self, shader: &mut Shader, body: &Body, accesses: &[Access], quads: usize) -> String {
        let last = self.last();
        let mut main = format!(
            "    let e0 = (group * {}u + lid) * 4u;\n    if e0 >= args.n {{ return; }}\n    let n = args.n - 1u;\n",
            GROUP as usize * quads
        );
        for q in 1..quads {
            writeln!(main, "    let e{q} = min(e0 + {}u, n & 0xfffffffcu);", apart(q)).expect("strings take text");
        }
        for (t, access) in accesses[..last].iter().enumerate() {
            let from = source(shader, self.form.reaches[t], &self.walk, t, access);
            (0..quads).for_each(|q| fetch(&mut main, self.form.reaches[t], (t, q), &from, &self.tensors[t]));
        }
        shader.arg("o", accesses[last].offset as u32);
        accesses[last].store_quad(shader, "store");
        function(shader, "element", &types(&self.tensors), body, self.params);
        for q in 0..quads {
            if q > 0 {
                writeln!(main, "    if e0 + {}u > n {{ return; }}", apart(q)).expect("strings take text");
            }
            let lanes = (0..4).map(|l| self.lane(l, q)).collect::<Vec<_>>().join(", ");
            writeln!(main, "    store(args.o + e{q}, vec4<u32>({lanes}), args.n - e{q});").expect("strings take text");
        }
        main
    }

    /// Element `l` of quad `q`, as a word.
    fn lane(&self, l: usize, q: usize) -> String {
        let operands: Vec<String> = (0..self.last()).map(|t| format!("x{t}_{l}_{q}")).collect();
        self.tensors[self.last()].stored.as_word(&format!("element({})", operands.join(", ")))
    }
}

/// Elements from the first quad of an invocation to quad `q`: neighbours compute neighbouring quads.
fn apart(q: usize) -> usize {
    4 * GROUP as usize * q
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

/// Writes what loads input `t`; gives the text that loads a quad of element `E`, or one element where each has its own.
fn source(shader: &mut Shader, reach: Reach, walk: &Walk, t: usize, access: &Access) -> String {
    match reach {
        Reach::Dense | Reach::Quad => access.load_quad(shader, &format!("quad{t}")),
        Reach::Splat | Reach::One | Reach::Each => access.load(shader, &format!("load{t}")),
    }
    if reach == Reach::Dense || reach == Reach::Splat {
        shader.arg(&format!("at{t}_o"), access.offset as u32);
    } else {
        walk.function(shader, &format!("at{t}"), "w", t, access.offset);
    }
    match reach {
        Reach::Splat => format!("load{t}(args.at{t}_o)"),
        Reach::Dense => format!("quad{t}(args.at{t}_o + E)"),
        Reach::Quad => format!("quad{t}(at{t}(E))"),
        Reach::One | Reach::Each => format!("load{t}(at{t}(E))"),
    }
}

/// Writes the loads of quad `q` of input `t` as values `x{t}_0_{q}` to `x{t}_3_{q}`.
fn fetch(main: &mut String, reach: Reach, (t, q): (usize, usize), from: &str, tensor: &Tensor) {
    let kind = type_name(tensor.stored.dtype);
    if reach != Reach::Each {
        writeln!(main, "    let q{t}_{q} = {};", from.replace('E', &format!("e{q}"))).expect("strings take text");
    }
    for l in 0..4 {
        let value = match reach {
            Reach::Splat | Reach::One => format!("q{t}_{q}"),
            Reach::Dense | Reach::Quad => tensor.stored.of_word(&format!("q{t}_{q}[{l}]")),
            Reach::Each => from.replace('E', &format!("min(e{q} + {l}u, n)")),
        };
        writeln!(main, "    let x{t}_{l}_{q}: {kind} = {value};").expect("strings take text");
    }
}

fn types(tensors: &[Tensor]) -> Vec<DType> {
    tensors[..tensors.len() - 1].iter().map(|t| t.stored.dtype).collect()
}
