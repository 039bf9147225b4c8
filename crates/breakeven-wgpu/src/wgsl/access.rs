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
    quads: bool,
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
    quads: bool,
}

/// Binds operands: each buffer once, so that an operand may be read and written.
pub fn bind(shader: &mut Shader, wants: &[Want<'_>]) -> (Vec<Bound>, Vec<Access>) {
    let (bound, mut accesses) = bind_members(&[wants.to_vec()]);
    declare(shader, &bound);
    (bound, accesses.remove(0))
}

/// Declares what is bound.
pub fn declare(shader: &mut Shader, bound: &[Bound]) {
    bound.iter().enumerate().for_each(|(i, b)| shader.binding(i, b.write, b.quads));
}

/// Binds the operands of all members together; gives the accesses of each.
pub fn bind_members(members: &[Vec<Want<'_>>]) -> (Vec<Bound>, Vec<Vec<Access>>) {
    let mut bound = Vec::new();
    let places: Vec<Vec<usize>> = members.iter().map(|wants| place(&mut bound, wants)).collect();
    let way = |binding: usize| Way { binding, quads: bound[binding].quads };
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
    wants.iter().map(|want| place_one(bound, want)).collect()
}

fn place_one(bound: &mut Vec<Bound>, &(tensor, write, quads): &Want<'_>) -> usize {
    let quads = quads && tensor.stored.width() == Width::Word;
    let span = tensor.bytes();
    let range = span.start / ALIGNMENT * ALIGNMENT..span.end.next_multiple_of(16);
    let index = bound.iter().position(|b| b.place == tensor.place).unwrap_or_else(|| {
        bound.push(Bound { place: tensor.place, write, range: range.clone(), quads });
        bound.len() - 1
    });
    let b = &mut bound[index];
    b.write |= write;
    b.quads &= quads;
    b.range = b.range.start.min(range.start)..b.range.end.max(range.end);
    index
}

impl Access {
    /// Writes `fn name(p: u32)`: the value at element `p`.
    pub fn load(&self, shader: &mut Shader, name: &str) {
        self.loads(shader, name, super::type_name(self.stored.dtype), |way| self.element(way));
    }

    fn element(&self, Way { binding: b, quads }: Way) -> String {
        match self.stored.width() {
            Width::Byte => self.stored.of_word(&format!("(b{b}[p >> 2u] >> ((p & 3u) * 8u)) & 255u")),
            Width::Word if quads => self.stored.of_word(&format!("b{b}[p >> 2u][p & 3u]")),
            Width::Word => self.stored.of_word(&format!("b{b}[p]")),
            Width::Pair => format!("vec2<u32>(b{b}[p * 2u], b{b}[p * 2u + 1u])"),
        }
    }

    /// Writes `fn name(p: u32)`: the words of the four elements from the multiple of four `p` on. Bytes are unpacked.
    pub fn load_quad(&self, shader: &mut Shader, name: &str) {
        self.loads(shader, name, "vec4<u32>", |Way { binding: b, quads }| match self.stored.width() {
            Width::Byte => format!("(vec4<u32>(b{b}[p >> 2u]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)"),
            _ if quads => format!("b{b}[p >> 2u]"),
            _ => format!("vec4<u32>(b{b}[p], b{b}[p + 1u], b{b}[p + 2u], b{b}[p + 3u])"),
        });
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

    /// Writes `fn name(p: u32, v: ..)`: stores one element that is not a byte.
    pub fn store(&self, shader: &mut Shader, name: &str) {
        let word = self.stored.as_word("v");
        let kind = super::type_name(self.stored.dtype);
        let step = |Way { binding: b, quads }: Way| match self.stored.width() {
            Width::Pair => format!("    b{b}[p * 2u] = v.x;\n    b{b}[p * 2u + 1u] = v.y;\n"),
            _ if quads => format!("    b{b}[p >> 2u][p & 3u] = {word};\n"),
            _ => format!("    b{b}[p] = {word};\n"),
        };
        shader.function(name, format!("fn {name}(p: u32, v: {kind}) {{\n{}}}\n", switch(&self.cases(step))));
    }

    /// Writes `fn name(p: u32, v: vec4<u32>, count: u32)`: stores the words of the first `count` elements from the
    /// multiple of four `p` on. Bytes that are not written keep their value.
    pub fn store_quad(&self, shader: &mut Shader, name: &str) {
        let step = |Way { binding: b, quads }: Way| match self.stored.width() {
            Width::Byte => format!(
                "    let w = v.x | (v.y << 8u) | (v.z << 16u) | (v.w << 24u);\n    \
                 if count >= 4u {{\n        b{b}[p >> 2u] = w;\n    }} else {{\n        \
                 let mask = (1u << (count * 8u)) - 1u;\n        \
                 b{b}[p >> 2u] = (b{b}[p >> 2u] & ~mask) | (w & mask);\n    }}\n"
            ),
            _ if quads => format!(
                "    if count >= 4u {{\n        b{b}[p >> 2u] = v;\n    }} else {{\n        \
                 b{b}[p >> 2u].x = v.x;\n        if count > 1u {{ b{b}[p >> 2u].y = v.y; }}\n        \
                 if count > 2u {{ b{b}[p >> 2u].z = v.z; }}\n    }}\n"
            ),
            _ => format!(
                "    b{b}[p] = v.x;\n    if count > 1u {{ b{b}[p + 1u] = v.y; }}\n    \
                 if count > 2u {{ b{b}[p + 2u] = v.z; }}\n    if count > 3u {{ b{b}[p + 3u] = v.w; }}\n"
            ),
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
