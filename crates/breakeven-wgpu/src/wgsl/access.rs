//! How operands are bound, and how WGSL loads and stores their elements.

use std::fmt::Write;
use std::ops::Range;
use std::rc::Rc;

use super::{Place, Shader, Stored, Tensor, Width};

/// One buffer that a dispatch binds; several operands may lie in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it stands for.
    pub place: Place,
    /// Whether the dispatch writes it.
    pub write: bool,
    /// The part that is bound, in bytes.
    pub range: Range<u64>,
    grain: Grain,
}

/// The elements of what is bound, as WGSL sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    /// Words.
    Word,
    /// Aligned quads of words: nothing in it is accessed otherwise.
    Quad,
    /// Words, of which invocations write parts.
    Atomic,
    /// Quads of f16.
    Halves,
}

impl Grain {
    /// For an operand that is written or not, by aligned quads or not.
    fn of(tensor: &Tensor, write: bool, quads: bool) -> Grain {
        match tensor.stored.width() {
            _ if tensor.is_native => Grain::Halves,
            Width::Word if quads => Grain::Quad,
            _ if write && !quads && tensor.stored.is_packed() => Grain::Atomic,
            _ => Grain::Word,
        }
    }

    /// For two operands in one buffer.
    fn join(self, other: Grain) -> Grain {
        match (self, other) {
            (Grain::Atomic, _) | (_, Grain::Atomic) => Grain::Atomic,
            _ if self == other => self,
            _ => Grain::Word,
        }
    }
}

/// An operand, whether it is written, and whether it is accessed by aligned quads only.
pub type Want<'a> = (&'a Tensor, bool, bool);

/// Alignment of what is bound, which suits every device: the largest that WebGPU allows a device to ask for.
const ALIGNMENT: u64 = 256;

/// An operand after binding: in which buffer it lies, and where in the part that is bound.
#[derive(Clone, Debug)]
pub struct Access {
    /// By member of the dispatch: members run one text over buffers of their own.
    ways: Rc<[Way]>,
    stored: Stored,
    /// First element, counted from the start of the bound part.
    pub offset: u64,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    binding: usize,
    grain: Grain,
}

/// Binds operands: each buffer once, so that an operand may be read and written, but for what is bound as quads of f16 too. Where
/// a dispatch writes such a buffer, it writes other bytes of it.
pub fn bind(shader: &mut Shader, wants: &[Want<'_>]) -> (Vec<Bound>, Vec<Access>) {
    let (bound, mut accesses) = bind_members(&[wants.to_vec()]);
    declare(shader, &bound);
    (bound, accesses.remove(0))
}

/// Declares what is bound.
pub fn declare(shader: &mut Shader, bound: &[Bound]) {
    bound.iter().enumerate().for_each(|(i, b)| shader.binding(i, b.write, b.element()));
}

/// Binds the operands of all members together; gives the accesses of each.
pub fn bind_members(members: &[Vec<Want<'_>>]) -> (Vec<Bound>, Vec<Vec<Access>>) {
    let mut bound = Vec::new();
    let places: Vec<Vec<usize>> = members.iter().map(|wants| place(&mut bound, wants)).collect();
    let way = |binding: usize| Way { binding, grain: bound[binding].grain };
    let operands = members.first().map_or(0, Vec::len);
    let ways: Vec<Rc<[Way]>> = (0..operands).map(|t| places.iter().map(|p| way(p[t])).collect()).collect();
    let access = |(&(tensor, _, _), (&index, ways)): (&Want<'_>, (&usize, &Rc<[Way]>))| Access {
        ways: ways.clone(),
        stored: tensor.stored,
        offset: tensor.layout.offset as u64 - bound[index].range.start / tensor.stored.bytes(),
    };
    let of_member = |(wants, places): (&Vec<Want<'_>>, &Vec<usize>)| -> Vec<Access> {
        wants.iter().zip(places.iter().zip(&ways)).map(access).collect()
    };
    let accesses = members.iter().zip(&places).map(of_member).collect();
    (bound, accesses)
}

/// Adds operands to what is bound; the index of the buffer of each.
pub fn place(bound: &mut Vec<Bound>, wants: &[Want<'_>]) -> Vec<usize> {
    let places = wants.iter().map(|want| place_one(bound, want)).collect();
    let written: Vec<Place> = bound.iter().filter(|b| b.write).map(|b| b.place).collect();
    // A buffer is written by a dispatch or not, in all of its bindings.
    for b in bound.iter_mut() {
        b.write |= written.contains(&b.place);
    }
    places
}

fn place_one(bound: &mut Vec<Bound>, &(tensor, write, quads): &Want<'_>) -> usize {
    let grain = Grain::of(tensor, write, quads);
    let span = tensor.bytes();
    let range = span.start / ALIGNMENT * ALIGNMENT..span.end.next_multiple_of(16);
    let is_same = |b: &Bound| b.place == tensor.place && (b.grain == Grain::Halves) == tensor.is_native;
    let index = bound.iter().position(is_same).unwrap_or_else(|| {
        bound.push(Bound { place: tensor.place, write, range: range.clone(), grain });
        bound.len() - 1
    });
    let b = &mut bound[index];
    b.write |= write;
    b.grain = b.grain.join(grain);
    b.range = b.range.start.min(range.start)..b.range.end.max(range.end);
    index
}

impl Bound {
    /// The WGSL type of its elements.
    fn element(&self) -> &'static str {
        match self.grain {
            Grain::Word => "u32",
            Grain::Quad => "vec4<u32>",
            Grain::Atomic => "atomic<u32>",
            Grain::Halves => "vec4<f16>",
        }
    }
}

impl Way {
    /// The word at `place`, read.
    fn word(self, place: &str) -> String {
        let b = self.binding;
        if self.grain == Grain::Atomic { format!("atomicLoad(&b{b}[{place}])") } else { format!("b{b}[{place}]") }
    }

    /// The statement that writes `value` to the word at `place`.
    fn set(self, place: &str, value: &str) -> String {
        let b = self.binding;
        if self.grain == Grain::Atomic {
            format!("atomicStore(&b{b}[{place}], {value});")
        } else {
            format!("b{b}[{place}] = {value};")
        }
    }

    /// Accesses words of quads.
    fn by_quads(self) -> bool {
        self.grain == Grain::Quad
    }
}

impl Access {
    /// Writes `fn name(p: u32)`: the value at element `p`.
    pub fn load(&self, shader: &mut Shader, name: &str) {
        self.loads(shader, name, super::type_name(self.stored.dtype), |way| self.element(way));
    }

    fn element(&self, way: Way) -> String {
        let b = way.binding;
        match self.stored.width() {
            Width::Byte => self.stored.of_word(&format!("({} >> ((p & 3u) * 8u)) & 255u", way.word("p >> 2u"))),
            Width::Half => self.stored.of_word(&format!("({} >> ((p & 1u) * 16u)) & 65535u", way.word("p >> 1u"))),
            Width::Word if way.by_quads() => self.stored.of_word(&format!("b{b}[p >> 2u][p & 3u]")),
            Width::Word => self.stored.of_word(&way.word("p")),
            Width::Pair => format!("vec2<u32>({}, {})", way.word("p * 2u"), way.word("p * 2u + 1u")),
        }
    }

    /// Writes `fn name(p: u32)`: the words of the four elements from the multiple of four `p` on. Narrow ones are unpacked.
    pub fn load_quad(&self, shader: &mut Shader, name: &str) {
        self.loads(shader, name, "vec4<u32>", |way| match self.stored.width() {
            Width::Byte => {
                let word = way.word("p >> 2u");
                format!("(vec4<u32>({word}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)")
            }
            Width::Half => {
                let (low, high) = (way.word("p >> 1u"), way.word("(p >> 1u) + 1u"));
                format!("(vec2<u32>({low}, {high}).xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(65535u)")
            }
            _ if way.by_quads() => format!("b{}[p >> 2u]", way.binding),
            _ => {
                let word = |l: u32| way.word(&format!("p + {l}u"));
                format!("vec4<u32>({}, {}, {}, {})", word(0), word(1), word(2), word(3))
            }
        });
    }

    /// Writes `fn name(p: u32)`: the four numbers of f16 from the multiple of four `p` on, of a tensor that is bound so.
    pub fn load_native(&self, shader: &mut Shader, name: &str) {
        self.loads(shader, name, "vec4<f16>", |way| format!("b{}[p >> 2u]", way.binding));
    }

    fn loads(&self, shader: &mut Shader, name: &str, kind: &str, value: impl Fn(Way) -> String) {
        let body = match self.cases(value).as_slice() {
            [(value, _)] => format!("    return {value};\n"),
            cases => {
                let keep: Vec<_> = cases.iter().map(|(value, who)| (format!("v = {value};"), who.clone())).collect();
                format!("    var v: {kind};\n{}    return v;\n", switch(&keep))
            }
        };
        shader.function(name, format!("fn {name}(p: u32) -> {kind} {{\n{body}}}\n"));
    }

    /// Writes `fn name(p: u32, v: ..)`: stores one element. Others may write other parts of its word meanwhile.
    pub fn store(&self, shader: &mut Shader, name: &str) {
        let word = self.stored.as_word("v");
        let kind = super::type_name(self.stored.dtype);
        let step = |way: Way| match self.stored.width() {
            Width::Byte => part_of_word(way.binding, "p >> 2u", ("(p & 3u) * 8u", "255u"), &word),
            Width::Half => part_of_word(way.binding, "p >> 1u", ("(p & 1u) * 16u", "65535u"), &word),
            Width::Pair => format!("    {}\n    {}\n", way.set("p * 2u", "v.x"), way.set("p * 2u + 1u", "v.y")),
            Width::Word if way.by_quads() => format!("    b{}[p >> 2u][p & 3u] = {word};\n", way.binding),
            Width::Word => format!("    {}\n", way.set("p", &word)),
        };
        shader.function(name, format!("fn {name}(p: u32, v: {kind}) {{\n{}}}\n", switch(&self.cases(step))));
    }

    /// Writes `fn name(p: u32, v: vec4<u32>, count: u32)`: stores the words of the first `count` elements from the
    /// multiple of four `p` on. Parts of words that are not written keep their value.
    pub fn store_quad(&self, shader: &mut Shader, name: &str) {
        let step = |way: Way| match self.stored.width() {
            Width::Byte => {
                let place = "p >> 2u";
                let mixed = format!("({} & ~mask) | (w & mask)", way.word(place));
                format!(
                    "    let w = v.x | (v.y << 8u) | (v.z << 16u) | (v.w << 24u);\n    if count >= 4u {{ {} }} else {{\n    \
                     let mask = (1u << (count * 8u)) - 1u;\n    {}\n    }}\n",
                    way.set(place, "w"),
                    way.set(place, &mixed)
                )
            }
            Width::Half => store_halves(way),
            _ if way.by_quads() => {
                let b = way.binding;
                format!(
                    "    if count >= 4u {{\n        b{b}[p >> 2u] = v;\n    }} else {{\n        \
                     b{b}[p >> 2u].x = v.x;\n        if count > 1u {{ b{b}[p >> 2u].y = v.y; }}\n        \
                     if count > 2u {{ b{b}[p >> 2u].z = v.z; }}\n    }}\n"
                )
            }
            _ => {
                let one = |l: u32, of: &str| {
                    format!("    if count > {l}u {{ {} }}\n", way.set(&format!("p + {l}u"), &format!("v.{of}")))
                };
                [one(0, "x"), one(1, "y"), one(2, "z"), one(3, "w")].concat()
            }
        };
        let body = switch(&self.cases(step));
        shader.function(name, format!("fn {name}(p: u32, v: vec4<u32>, count: u32) {{\n{body}}}\n"));
    }

    /// The different texts that members need, and which need them.
    fn cases(&self, text: impl Fn(Way) -> String) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        let mut by_binding = std::collections::HashMap::new();
        for (member, way) in self.ways.iter().enumerate() {
            let case = *by_binding.entry(way.binding).or_insert_with(|| {
                cases.push((text(*way), Vec::new()));
                cases.len() - 1
            });
            cases[case].1.push(member);
        }
        cases
    }
}

/// Writes one part of the word at `place` without touching the others.
fn part_of_word(b: usize, place: &str, (shift, mask): (&str, &str), word: &str) -> String {
    format!(
        "    let shift = {shift};\n    atomicAnd(&b{b}[{place}], ~({mask} << shift));\n    \
         atomicOr(&b{b}[{place}], ({word}) << shift);\n"
    )
}

/// Writes two words of two elements each, or the first `count` elements of them.
fn store_halves(way: Way) -> String {
    let word = |at: u32, (low, high): (&str, &str)| {
        let place = format!("(p >> 1u) + {at}u");
        let whole = way.set(&place, &format!("v.{low} | (v.{high} << 16u)"));
        let mixed = way.set(&place, &format!("({} & 0xffff0000u) | v.{low}", way.word(&place)));
        format!("    if count >= {}u {{ {whole} }} else if count == {}u {{ {mixed} }}\n", 2 * at + 2, 2 * at + 1)
    };
    [word(0, ("x", "y")), word(1, ("z", "w"))].concat()
}

/// A text and the members that need it.
type Case = (String, Vec<usize>);

/// The one text, or the choice by member.
fn switch(cases: &[Case]) -> String {
    let [first @ .., (last, _)] = cases else { return String::new() };
    if first.is_empty() {
        return last.clone();
    }
    let mut text = "    switch member {\n".to_owned();
    for (case, members) in first {
        let members: Vec<String> = members.iter().map(|m| format!("{m}u")).collect();
        writeln!(text, "    case {}: {{ {} }}", members.join(", "), case.trim()).expect("strings take text");
    }
    writeln!(text, "    default: {{ {} }}\n    }}", last.trim()).expect("strings take text");
    text
}
