//! Combining elements with updates, by index, always in one order and without atomic floats.
//!
//! Updates that meet one element are linked into a list; the order of the links is chance. Then each element looks for its
//! updates in the order of their numbers: a short list is searched again for each, a long one would take longer than going
//! through all updates of the row, which is what happens then. So an element costs at most as many steps as a row has
//! updates, and all of a row about as many as elements and updates together, unless a few elements get most updates. Where
//! the last update wins, the largest number is all that is kept.

use breakeven_ir::{Combine, DType, ExprBuilder, Fold, Layout, Scatter, Shape, Strides, Unsupported};

use super::reduce::algebra::joining;
use super::{Dispatch, Plan, body_of, map, pack, word_output};
use crate::wgsl::{Access, Bound, GROUP, Place, Shader, Tensor, Walk, bind, bind_members, wrapped};

/// Operands of the last walk, all over the shape of the output.
const SOURCE: usize = 0;
const UPDATES: usize = 1;
const HEADS: usize = 2;
const NEXTS: usize = 3;
const INDEX: usize = 4;
const OUT: usize = 5;
/// Where in its row an element lies.
const PLACE: usize = 6;

/// Iterations of an inner loop: some drivers silently stop after 65,535.
const ROUND: u32 = 4096;

pub(super) fn plan(
    plan: &mut Plan,
    k: &Scatter,
    inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    if k.out.dtype.bytes() == 8 && k.combine != Combine::Set {
        return Err(Unsupported("WGSL has no 64-bit integers to combine".to_owned()));
    }
    let out = outs.remove(0);
    let words = word_output(plan, &out);
    let [source, index, updates]: [Tensor; 3] = inputs.try_into().expect("a scatter takes three operands");
    if k.count() == 0 {
        let copy = breakeven_ir::Expr::identity(k.out.dtype).lower();
        map::push(plan, &copy, &[], vec![source], words.clone());
        pack(plan, words, out);
        return Ok(());
    }
    let lists = Lists::new(plan, k);
    lists.clear(plan)?;
    plan.dispatches.push(lists.link(k, &index));
    plan.dispatches.push(lists.combine(k, [source, index, updates, words.clone()]));
    pack(plan, words, out);
    Ok(())
}

/// For each row of indices and each element of it, the updates that meet it.
struct Lists {
    /// Extents of the rows of indices: 1 along axes whose rows share theirs.
    rows: Shape,
    /// For each element the number of an update, from 1 on, or 0.
    heads: Tensor,
    /// For each update the number of another that meets the same element, or 0.
    nexts: Tensor,
}

impl Lists {
    fn new(plan: &mut Plan, k: &Scatter) -> Lists {
        let extent = |(&n, &s): (&usize, &isize)| if s == 0 { 1 } else { n };
        let rows: Shape = k.outer.iter().zip(&k.index.layout.strides).map(extent).collect();
        let mut over = |last: usize| {
            let shape: Shape = rows.iter().copied().chain([last]).collect();
            Tensor::scratch(DType::U32, &shape, plan.take_scratch(4 * shape.elements() as u64))
        };
        let (heads, nexts) = (over(k.length()), over(k.count()));
        Lists { rows, heads, nexts }
    }

    fn clear(&self, plan: &mut Plan) -> Result<(), Unsupported> {
        let mut builder = ExprBuilder::default();
        let zero = builder.param(DType::U32);
        map::push(plan, &body_of(&builder.finish(zero))?, &[0.0], vec![], self.heads.clone());
        Ok(())
    }

    /// One invocation to an update.
    fn link(&self, k: &Scatter, index: &Tensor) -> Dispatch {
        let mut shader = Shader::default();
        let elements = self.nexts.layout.shape.elements() as u64;
        let walk = Walk::new(&self.nexts.layout.shape, &[&index.layout.strides]);
        let wants = vec![(index, false, false), (&self.heads, true, false), (&self.nexts, true, false)];
        let (bound, mut accesses) = bind_members(&[wants]);
        let accesses = accesses.remove(0);
        declare(&mut shader, &bound);
        shader.arg("n", elements as u32);
        shader.arg("count", k.count() as u32);
        shader.arg("heads", accesses[1].offset as u32);
        shader.arg("nexts", accesses[2].offset as u32);
        walk.function(&mut shader, "at", "w", 0, accesses[0].offset);
        target(&mut shader, k, &accesses[0]);
        let scratch = bound.iter().position(|b| b.place == Place::Scratch).expect("lists lie in scratch memory");
        let link = if k.combine == Combine::Set {
            format!("atomicMax(&b{scratch}[head], number);\n")
        } else {
            format!("atomicStore(&b{scratch}[args.nexts + e], atomicExchange(&b{scratch}[head], number));\n")
        };
        let main = format!(
            "let e = group * {GROUP}u + lid;\nif e >= args.n {{ return; }}\nlet to = target_of(at(e));\n\
             if to < args.extent {{\nlet head = args.heads + e / args.count * args.extent + to;\n\
             let number = e % args.count + 1u;\n{link}}}\n"
        );
        let (text, args) = shader.finish(&main);
        Dispatch { text, args, bound, groups: elements.div_ceil(u64::from(GROUP)), members: 1 }
    }

    /// One invocation to an element of the output.
    fn combine(&self, k: &Scatter, [source, index, updates, out]: [Tensor; 4]) -> Dispatch {
        let along = |tensor: &Tensor| tensor.layout.strides.last().copied().unwrap_or(0) as u32;
        let (per_update, per_index) = (along(&updates), along(&index));
        let spread = |tensor: &Tensor| over_rows(tensor, &out.layout.shape, 0);
        let tensors = [source, spread(&updates), self.over(k, &self.heads, 1), self.over(k, &self.nexts, 0)];
        let tensors: Vec<Tensor> = tensors.into_iter().chain([spread(&index), out.clone()]).collect();
        let place = places(&out.layout.shape);
        let layouts: Vec<&Layout> = tensors.iter().map(|t| &t.layout).chain([&place]).collect();
        let walk = Walk::along(&out.layout.shape, &layouts, OUT);
        let elements = out.layout.shape.elements() as u64;
        let mut shader = Shader::default();
        shader.arg("n", elements as u32);
        shader.arg("count", k.count() as u32);
        shader.arg("most", k.count().isqrt() as u32);
        shader.arg("per_update", per_update);
        shader.arg("per_index", per_index);
        let wants: Vec<_> = tensors.iter().enumerate().map(|(t, tensor)| (tensor, t == OUT, false)).collect();
        let (bound, accesses) = bind(&mut shader, &wants);
        for (t, access) in accesses.iter().enumerate() {
            walk.function(&mut shader, &format!("at{t}"), "w", t, access.offset);
            if t == OUT { access.store(&mut shader, "store") } else { access.load(&mut shader, &format!("load{t}")) }
        }
        walk.function(&mut shader, "place_of", "w", PLACE, 0);
        target(&mut shader, k, &accesses[INDEX]);
        let main = main(&mut shader, k);
        let (text, args) = shader.finish(&main);
        Dispatch { text, args, bound, groups: elements.div_ceil(u64::from(GROUP)), members: 1 }
    }

    /// Scratch memory over the shape of the output, whose rows share what their indices share.
    fn over(&self, k: &Scatter, tensor: &Tensor, last: isize) -> Tensor {
        let own = self.rows.iter().zip(&tensor.layout.strides).map(|(&n, &s)| if n == 1 { 0 } else { s });
        let strides: Strides = own.chain([last]).collect();
        let layout = Layout { shape: k.out.layout.shape.clone(), offset: tensor.layout.offset, strides };
        Tensor { layout, whole: Some(tensor.layout.clone()), ..tensor.clone() }
    }
}

/// Declares what is bound, with scratch memory as atomic words.
fn declare(shader: &mut Shader, bound: &[Bound]) {
    for (i, b) in bound.iter().enumerate() {
        if b.place == Place::Scratch { shader.atomics(i) } else { shader.binding(i, b.write, "u32") }
    }
}

/// An operand over the shape of the output, with a step of its own along a row.
fn over_rows(tensor: &Tensor, shape: &Shape, last: isize) -> Tensor {
    let mut layout = Layout { shape: shape.clone(), ..tensor.layout.clone() };
    *layout.strides.last_mut().expect("a scatter has an axis") = last;
    Tensor { layout, whole: Some(tensor.layout.clone()), ..tensor.clone() }
}

/// A layout whose positions are places in a row.
fn places(shape: &Shape) -> Layout {
    let last = shape.rank() - 1;
    let strides = (0..=last).map(|axis| isize::from(axis == last)).collect();
    Layout { shape: shape.clone(), offset: 0, strides }
}

/// Writes `fn target_of(p: u32) -> u32`: where in a row the index at `p` points; `args.extent` or more outside.
fn target(shader: &mut Shader, k: &Scatter, access: &Access) {
    access.load(shader, "index_at");
    shader.arg("extent", k.length() as u32);
    // The high word of a 64-bit index must be the sign of the low one.
    let (picked, is_narrow) = match k.index.dtype {
        DType::I64 => ("bitcast<i32>(raw.x)", "raw.y == bitcast<u32>(picked >> 31u)"),
        _ => ("raw", "true"),
    };
    let text = format!(
        "fn target_of(p: u32) -> u32 {{\n    let raw = index_at(p);\n    let picked = {picked};\n    \
         let place = bitcast<u32>(select(picked, picked + bitcast<i32>(args.extent), picked < 0));\n    \
         return select(args.extent, place, {is_narrow});\n}}\n"
    );
    shader.function("target_of", text);
}

fn main(shader: &mut Shader, k: &Scatter) -> String {
    let begin = format!(
        "let e = group * {GROUP}u + lid;\nif e >= args.n {{ return; }}\nvar v = load{SOURCE}(at{SOURCE}(e));\n\
         let first = load{HEADS}(at{HEADS}(e));\nlet base = at{UPDATES}(e);\n"
    );
    let fold = match k.combine {
        Combine::Set => {
            let last = format!("v = load{UPDATES}(base + (first - 1u) * args.per_update);");
            return format!("{begin}if first != 0u {{ {last} }}\nstore(at{OUT}(e), v);\n");
        }
        Combine::Add => Fold::Sum,
        Combine::Mul => Fold::Prod,
        Combine::Max => Fold::Max,
        Combine::Min => Fold::Min,
    };
    joining(shader, fold, k.out.dtype);
    let update = |p: &str| format!("v = f_join(v, load{UPDATES}(base + ({p}) * args.per_update));");
    let search = format!(
        "var done = 0u;\nfor (var s = 0u; s < met; s += 1u) {{\nvar best = 4294967295u;\nvar c = first;\n\
         for (var t = 0u; t < met; t += 1u) {{\nif c > done {{ best = min(best, c); }}\nc = load{NEXTS}(list + c - 1u);\n}}\n\
         {}\ndone = best;\n}}\n",
        update("best - 1u")
    );
    let all = format!(
        "let own = place_of(e);\nlet index = at{INDEX}(e);\nfor (var b = 0u; b < args.count; b += {ROUND}u) {{\n\
         let stop = min(b + {ROUND}u, args.count);\nfor (var p = b; p < stop; p += 1u) {{\n\
         if target_of(index + p * args.per_index) == own {{ {} }}\n}}\n}}\n",
        update("p")
    );
    let narrow = wrapped(k.out.dtype, "v");
    format!(
        "{begin}if first != 0u {{\nlet list = at{NEXTS}(e);\nvar met = 0u;\nvar q = first;\n\
         while q != 0u && met <= args.most {{\nmet += 1u;\nq = load{NEXTS}(list + q - 1u);\n}}\n\
         if met <= args.most {{\n{search}}} else {{\n{all}}}\n}}\nstore(at{OUT}(e), {narrow});\n"
    )
}
