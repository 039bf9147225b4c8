//! Sorting by a bitonic network, whose steps depend on lengths alone. An element becomes a key of words that is ordered as it
//! is, with its index as the last word: no two are equal, so the order is stable.
//!
//! A workgroup sorts a stretch in its memory, which may hold several short rows. Longer rows lie in scratch memory between
//! the steps that reach across stretches.

use std::fmt::Write;

use breakeven_ir::{DType, SortRows, Unsupported};

use super::{Dispatch, Plan, Shaping, pack, word_output};
use crate::wgsl::{Access, GROUP, Shader, Stored, Tensor, Walk, bind, type_name};

/// Places of one stretch: two for each invocation.
const STRETCH: usize = 2 * GROUP as usize;

pub(super) fn plan(
    plan: &mut Plan,
    k: &SortRows,
    mut inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
    shaping: &Shaping,
) -> Result<(), Unsupported> {
    let dtype = k.input.dtype;
    if dtype == DType::F64 {
        return Err(Unsupported("WGSL has no 64-bit floats to sort".to_owned()));
    }
    let (indices, values) = (outs.remove(1), outs.remove(0));
    let words = word_output(plan, &values);
    let padded = k.length.next_power_of_two();
    let key_words = if dtype.bytes() == 8 { 2 } else { 1 };
    let row_bytes = 4 * (key_words + 1) * padded as u64;
    // A row that fits a stretch needs no scratch memory, and all rows go at once.
    let rows = match k.outer.elements() {
        all if padded <= STRETCH => all,
        all => all.min((shaping.binding_bytes / row_bytes) as usize),
    };
    if rows == 0 || (rows * padded) as u64 > shaping.max_index {
        let text = format!("sorting a row of {} elements takes more memory than one launch can see", k.length);
        return Err(Unsupported(text));
    }
    let start = if padded > STRETCH { plan.take_scratch(rows as u64 * row_bytes) } else { 0 };
    let network = Network {
        k,
        tensors: [raw(inputs.remove(0)), raw(words.clone()), raw(indices)],
        scratch: Tensor::scratch(DType::U32, &[rows * padded * (key_words + 1) as usize].into(), start),
        padded,
        is_wide: key_words == 2,
    };
    for first in (0..k.outer.elements()).step_by(rows) {
        network.push(plan, first, rows.min(k.outer.elements() - first));
    }
    pack(plan, words, values);
    Ok(())
}

/// The bits of the elements, so that no NaN and no denormal is changed on the way.
fn raw(tensor: Tensor) -> Tensor {
    let dtype = match tensor.stored.dtype.bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::I64,
    };
    Tensor { stored: Stored { dtype, ..tensor.stored }, ..tensor }
}

/// The network of rows of one length.
struct Network<'a> {
    k: &'a SortRows,
    /// Input, values and indices.
    tensors: [Tensor; 3],
    /// For each place its key and its index.
    scratch: Tensor,
    /// Places of one row.
    padded: usize,
    /// Keys have two words.
    is_wide: bool,
}

/// What one dispatch does with its stretches: where they come from, and what is merged.
#[derive(Clone, Copy)]
struct Stage {
    /// Elements are loaded from the input, else from scratch memory.
    is_first: bool,
    /// Results are written, else scratch memory.
    is_last: bool,
    /// Lengths of the sorted runs that come out of the first and the last merge.
    runs: (usize, usize),
}

impl Network<'_> {
    fn push(&self, plan: &mut Plan, first: usize, rows: usize) {
        let size = self.padded;
        let part = Part { first, rows, slots: rows * size };
        let stage = Stage { is_first: true, is_last: size <= STRETCH, runs: (2, size.min(STRETCH)) };
        plan.dispatches.push(self.near(part, stage));
        let mut run = 2 * STRETCH;
        while run <= size {
            let mut step = run / 2;
            while step >= STRETCH {
                plan.dispatches.push(self.far(part, run, step));
                step /= 2;
            }
            plan.dispatches.push(self.near(part, Stage { is_first: false, is_last: run == size, runs: (run, run) }));
            run *= 2;
        }
    }

    fn args(&self, shader: &mut Shader, part: Part) {
        let Part { first, rows, slots } = part;
        let sizes = [first, rows, slots, self.padded, self.k.length, self.k.keep];
        for (name, size) in ["first", "rows", "slots", "padded", "length", "keep"].iter().zip(sizes) {
            shader.arg(name, size as u32);
        }
        shader.arg("turn", if self.k.descending { u32::MAX } else { 0 });
    }

    /// Merges within stretches.
    fn near(&self, part: Part, stage: Stage) -> Dispatch {
        let mut shader = Shader::default();
        self.args(&mut shader, part);
        shader.arg("shortest", stage.runs.0 as u32);
        shader.arg("longest", stage.runs.1 as u32);
        let wants = [
            (&self.tensors[0], false, stage.is_first || stage.is_last),
            (&self.tensors[1], true, stage.is_last),
            (&self.tensors[2], true, stage.is_last),
            (&self.scratch, true, !(stage.is_first && stage.is_last)),
        ];
        let used: Vec<_> = wants.iter().enumerate().filter(|(_, want)| want.2).collect();
        let (bound, accesses) = bind(&mut shader, &used.iter().map(|(_, w)| (w.0, w.1, false)).collect::<Vec<_>>());
        for (&(t, _), access) in used.iter().zip(&accesses) {
            if t == 3 {
                self.scratch_functions(&mut shader, access);
            } else {
                self.row_functions(&mut shader, t, access);
            }
        }
        if stage.is_first {
            shader.function("key_of", self.key());
        }
        shader.shared("keys", &format!("array<{}, {STRETCH}>", self.key_kind()));
        shader.shared("places", &format!("array<u32, {STRETCH}>"));
        let (text, args) = shader.finish(&self.near_main(stage));
        Dispatch { text, args, bound, groups: part.slots.div_ceil(STRETCH) as u64, members: 1 }
    }

    fn near_main(&self, stage: Stage) -> String {
        let largest = if self.is_wide { "vec2<u32>(4294967295u)" } else { "4294967295u" };
        let mut main = format!("let base = group * {STRETCH}u;\nfor (var s = lid; s < {STRETCH}u; s += {GROUP}u) {{\n");
        main += "let slot = base + s;\nlet row = slot / args.padded;\nlet i = slot % args.padded;\n";
        if stage.is_first {
            let turn = if self.is_wide { "vec2<u32>(args.turn)" } else { "args.turn" };
            write!(
                main,
                "var key = {largest};\nif row < args.rows && i < args.length {{\n\
                 key = key_of(load0(row0(args.first + row) + i * args.along0)) ^ {turn};\n}}\n\
                 keys[s] = key;\nplaces[s] = i;\n}}\n"
            )
        } else {
            write!(main, "if slot < args.slots {{ keys[s] = key_at(slot); places[s] = place_at(slot); }}\n}}\n")
        }
        .expect("strings take text");
        write!(
            main,
            "workgroupBarrier();\nfor (var run = args.shortest; run <= args.longest; run = run * 2u) {{\n\
             for (var step = min(run / 2u, {GROUP}u); step > 0u; step = step / 2u) {{\n\
             let a = 2u * lid - (lid & (step - 1u));\nlet b = a + step;\n\
             let is_up = (((base + a) % args.padded) & run) == 0u;\nlet key_a = keys[a];\nlet key_b = keys[b];\n\
             let place_a = places[a];\nlet place_b = places[b];\n\
             if ({}) == is_up {{\nkeys[a] = key_b;\nkeys[b] = key_a;\nplaces[a] = place_b;\nplaces[b] = place_a;\n}}\n\
             workgroupBarrier();\n}}\n}}\n",
            self.is_after()
        )
        .expect("strings take text");
        main += "for (var s = lid; s < ";
        write!(main, "{STRETCH}u; s += {GROUP}u) {{\nlet slot = base + s;\n").expect("strings take text");
        main += if stage.is_last {
            "let row = slot / args.padded;\nlet i = slot % args.padded;\nif row < args.rows && i < args.keep {\n\
             let place = places[s];\nlet o = args.first + row;\n\
             store1(row1(o) + i * args.along1, load0(row0(o) + place * args.along0));\n\
             store2(row2(o) + i * args.along2, vec2<u32>(place, 0u));\n}\n"
        } else {
            "if slot < args.slots { put(slot, keys[s], places[s]); }\n"
        };
        main + "}\n"
    }

    /// One step of a merge between stretches.
    fn far(&self, part: Part, run: usize, step: usize) -> Dispatch {
        let mut shader = Shader::default();
        self.args(&mut shader, part);
        shader.arg("run", run as u32);
        shader.arg("step", step as u32);
        let (bound, accesses) = bind(&mut shader, &[(&self.scratch, true, false)]);
        self.scratch_functions(&mut shader, &accesses[0]);
        let main = format!(
            "let t = group * {GROUP}u + lid;\nif t >= args.slots / 2u {{ return; }}\n\
             let a = 2u * t - (t & (args.step - 1u));\nlet b = a + args.step;\n\
             let is_up = ((a % args.padded) & args.run) == 0u;\nlet key_a = key_at(a);\nlet key_b = key_at(b);\n\
             let place_a = place_at(a);\nlet place_b = place_at(b);\n\
             if ({}) == is_up {{\nput(a, key_b, place_b);\nput(b, key_a, place_a);\n}}\n",
            self.is_after()
        );
        let (text, args) = shader.finish(&main);
        Dispatch { text, args, bound, groups: (part.slots / 2).div_ceil(GROUP as usize) as u64, members: 1 }
    }

    /// Whether the element at `a` comes after the one at `b`.
    fn is_after(&self) -> &'static str {
        if self.is_wide {
            "key_a.x > key_b.x || (key_a.x == key_b.x && (key_a.y > key_b.y || \
             (key_a.y == key_b.y && place_a > place_b)))"
        } else {
            "key_a > key_b || (key_a == key_b && place_a > place_b)"
        }
    }

    fn key_kind(&self) -> &'static str {
        if self.is_wide { "vec2<u32>" } else { "u32" }
    }

    /// Writes `row{t}`, where a row of an operand starts, and how it is loaded or stored.
    fn row_functions(&self, shader: &mut Shader, t: usize, access: &Access) {
        let rank = self.k.outer.rank();
        let strides = &self.tensors[t].layout.strides;
        let walk = Walk::new(&self.k.outer, &[&strides[..rank]]);
        walk.function(shader, &format!("row{t}"), &format!("outer{t}"), 0, access.offset);
        shader.arg(&format!("along{t}"), strides[rank] as u32);
        if t == 0 { access.load(shader, "load0") } else { access.store(shader, &format!("store{t}")) }
    }

    /// Writes `key_at`, `place_at` and `put`.
    fn scratch_functions(&self, shader: &mut Shader, access: &Access) {
        shader.arg("scratch", access.offset as u32);
        access.load(shader, "word");
        access.store(shader, "put_word");
        let kind = self.key_kind();
        let (words, key, put) = if self.is_wide {
            (3, "vec2<u32>(word(p), word(p + 1u))", "put_word(p, key.x);\n    put_word(p + 1u, key.y);")
        } else {
            (2, "word(p)", "put_word(p, key);")
        };
        let at = format!("let p = args.scratch + slot * {words}u;");
        shader.function("key_at", format!("fn key_at(slot: u32) -> {kind} {{\n    {at}\n    return {key};\n}}\n"));
        let last = words - 1;
        shader.function(
            "place_at",
            format!("fn place_at(slot: u32) -> u32 {{\n    {at}\n    return word(p + {last}u);\n}}\n"),
        );
        let text = format!(
            "fn put(slot: u32, key: {kind}, place: u32) {{\n    {at}\n    {put}\n    put_word(p + {last}u, place);\n}}\n"
        );
        shader.function("put", text);
    }

    /// The function that makes the bits of an element a key.
    fn key(&self) -> String {
        let body = match self.k.input.dtype {
            DType::I8 => "return v ^ 128u;".to_owned(),
            DType::I16 => "return v ^ 32768u;".to_owned(),
            DType::I32 => "return v ^ 2147483648u;".to_owned(),
            DType::I64 => "return vec2<u32>(v.y ^ 2147483648u, v.x);".to_owned(),
            DType::U64 => "return v.yx;".to_owned(),
            DType::F32 => float_key(0x8000_0000, 0x7F80_0000),
            DType::F16 => float_key(0x8000, 0x7C00),
            DType::BF16 => float_key(0x8000, 0x7F80),
            _ => "return v;".to_owned(),
        };
        let kind = type_name(self.tensors[0].stored.dtype);
        format!("fn key_of(v: {kind}) -> {} {{\n    {body}\n}}\n", self.key_kind())
    }
}

/// Rows that go through the network together.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    rows: usize,
    slots: usize,
}

/// NaN is the largest, -0 is 0, and negative numbers are turned around.
fn float_key(sign: u32, infinity: u32) -> String {
    let all = sign | (sign - 1);
    format!(
        "let size = v & {}u;\n    if size > {infinity}u {{ return {all}u; }}\n    \
         if (v & {sign}u) != 0u && size != 0u {{ return v ^ {all}u; }}\n    return size | {sign}u;",
        sign - 1
    )
}
