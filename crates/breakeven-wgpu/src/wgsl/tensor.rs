//! Operands: where they are bound, how their elements are stored, and how WGSL loads and stores them.

use std::ops::Range;

use breakeven_ir::{DType, Layout, Operand};

use super::Shader;

/// What a binding stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A slot of the segment.
    Slot(usize),
    /// The launch's scratch memory.
    Scratch,
}

/// How elements are stored: as their type says, or, in scratch memory, one word for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Type of the elements.
    pub dtype: DType,
    /// Bytes stored as words.
    pub in_words: bool,
}

/// Bytes, words or pairs of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Four elements to a word.
    Byte,
    /// One element to a word.
    Word,
    /// Two words to an element.
    Pair,
}

impl Stored {
    /// Words, bytes or pairs.
    pub fn width(self) -> Width {
        match self.dtype.bytes() {
            1 if !self.in_words => Width::Byte,
            8 => Width::Pair,
            _ => Width::Word,
        }
    }

    fn bytes(self) -> u64 {
        match self.width() {
            Width::Byte => 1,
            Width::Word => 4,
            Width::Pair => 8,
        }
    }

    /// The value in the word `w`.
    pub fn of_word(self, w: &str) -> String {
        match self.dtype {
            DType::F32 => format!("bitcast<f32>({w})"),
            DType::I32 => format!("bitcast<i32>({w})"),
            DType::Bool => format!("({w}) != 0u"),
            _ => w.to_owned(),
        }
    }

    /// The word that holds the value `v`.
    pub fn as_word(self, v: &str) -> String {
        match self.dtype {
            DType::F32 | DType::I32 => format!("bitcast<u32>({v})"),
            DType::Bool => format!("select(0u, 1u, {v})"),
            _ => v.to_owned(),
        }
    }
}

/// An operand of a dispatch.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// What it is bound to.
    pub place: Place,
    /// How its elements are stored.
    pub stored: Stored,
    /// Where they lie.
    pub layout: Layout,
    /// Where all elements lie that may be touched, where that is more than the layout says.
    pub whole: Option<Layout>,
}

impl Tensor {
    /// An operand of the kernel in a slot.
    pub fn slot(operand: &Operand, slot: usize) -> Tensor {
        let stored = Stored { dtype: operand.dtype, in_words: false };
        Tensor { place: Place::Slot(slot), stored, layout: operand.layout.clone(), whole: None }
    }

    /// Dense scratch memory from byte `start` on, one word (or pair) for each element.
    pub fn scratch(dtype: DType, shape: &breakeven_ir::Shape, start: u64) -> Tensor {
        let stored = Stored { dtype, in_words: true };
        let mut layout = Layout::dense(shape.clone());
        layout.offset = (start / stored.bytes()) as usize;
        Tensor { place: Place::Scratch, stored, layout, whole: None }
    }

    fn bytes(&self) -> Range<u64> {
        let (low, high) = self.whole.as_ref().unwrap_or(&self.layout).span().unwrap_or((0, 0));
        low as u64 * self.stored.bytes()..(high as u64 + 1) * self.stored.bytes()
    }

    /// True when four elements from any multiple of four on lie in one aligned quad, given that they are neighbours.
    pub fn is_aligned(&self) -> bool {
        self.layout.offset.is_multiple_of(4)
    }
}

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

/// Alignment of what is bound, which suits every device: the largest that WebGPU allows a device to ask for.
const ALIGNMENT: u64 = 256;

/// An operand after binding: in which buffer it lies, and where in the part that is bound.
#[derive(Clone, Debug)]
pub struct Access {
    binding: usize,
    quads: bool,
    stored: Stored,
    /// First element, counted from the start of the bound part.
    pub offset: u64,
}

/// Binds operands: each buffer once, so that an operand may be read and written. `wants` are an operand, whether it is
/// written, and whether it is accessed by aligned quads only.
pub fn bind(shader: &mut Shader, wants: &[(&Tensor, bool, bool)]) -> (Vec<Bound>, Vec<Access>) {
    let mut bound: Vec<Bound> = Vec::new();
    let mut places = Vec::with_capacity(wants.len());
    for &(tensor, write, quads) in wants {
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
        places.push(index);
    }
    bound.iter().enumerate().for_each(|(i, b)| shader.binding(i, b.write, b.quads));
    let access = |(&(tensor, _, _), &index): (&(&Tensor, bool, bool), &usize)| Access {
        binding: index,
        quads: bound[index].quads,
        stored: tensor.stored,
        offset: tensor.layout.offset as u64 - bound[index].range.start / tensor.stored.bytes(),
    };
    let accesses = wants.iter().zip(&places).map(access).collect();
    (bound, accesses)
}

impl Access {
    /// Writes `fn name(p: u32)`: the value at element `p`.
    pub fn load(&self, shader: &mut Shader, name: &str) {
        let b = self.binding;
        let value = match self.stored.width() {
            Width::Byte => self.stored.of_word(&format!("(b{b}[p >> 2u] >> ((p & 3u) * 8u)) & 255u")),
            Width::Word if self.quads => self.stored.of_word(&format!("b{b}[p >> 2u][p & 3u]")),
            Width::Word => self.stored.of_word(&format!("b{b}[p]")),
            Width::Pair => format!("vec2<u32>(b{b}[p * 2u], b{b}[p * 2u + 1u])"),
        };
        let kind = super::type_name(self.stored.dtype);
        shader.function(name, format!("fn {name}(p: u32) -> {kind} {{\n    return {value};\n}}\n"));
    }

    /// Writes `fn name(p: u32)`: the words of the four elements from the multiple of four `p` on. Bytes are unpacked.
    pub fn load_quad(&self, shader: &mut Shader, name: &str) {
        let b = self.binding;
        let value = match self.stored.width() {
            Width::Byte => format!("(vec4<u32>(b{b}[p >> 2u]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)"),
            _ if self.quads => format!("b{b}[p >> 2u]"),
            _ => format!("vec4<u32>(b{b}[p], b{b}[p + 1u], b{b}[p + 2u], b{b}[p + 3u])"),
        };
        shader.function(name, format!("fn {name}(p: u32) -> vec4<u32> {{\n    return {value};\n}}\n"));
    }

    /// Writes `fn name(p: u32, v: ..)`: stores one element that is not a byte.
    pub fn store(&self, shader: &mut Shader, name: &str) {
        let (b, word) = (self.binding, self.stored.as_word("v"));
        let step = match self.stored.width() {
            Width::Pair => format!("b{b}[p * 2u] = v.x;\n    b{b}[p * 2u + 1u] = v.y;"),
            _ if self.quads => format!("b{b}[p >> 2u][p & 3u] = {word};"),
            _ => format!("b{b}[p] = {word};"),
        };
        let kind = super::type_name(self.stored.dtype);
        shader.function(name, format!("fn {name}(p: u32, v: {kind}) {{\n    {step}\n}}\n"));
    }

    /// Writes `fn name(p: u32, v: vec4<u32>, count: u32)`: stores the words of the first `count` elements from the
    /// multiple of four `p` on. Bytes that are not written keep their value.
    pub fn store_quad(&self, shader: &mut Shader, name: &str) {
        let b = self.binding;
        let step = match self.stored.width() {
            Width::Byte => format!(
                "    let w = v.x | (v.y << 8u) | (v.z << 16u) | (v.w << 24u);\n    \
                 if count >= 4u {{\n        b{b}[p >> 2u] = w;\n    }} else {{\n        \
                 let mask = (1u << (count * 8u)) - 1u;\n        \
                 b{b}[p >> 2u] = (b{b}[p >> 2u] & ~mask) | (w & mask);\n    }}\n"
            ),
            _ if self.quads => format!(
                "    if count >= 4u {{\n        b{b}[p >> 2u] = v;\n    }} else {{\n        \
                 b{b}[p >> 2u].x = v.x;\n        if count > 1u {{ b{b}[p >> 2u].y = v.y; }}\n        \
                 if count > 2u {{ b{b}[p >> 2u].z = v.z; }}\n    }}\n"
            ),
            _ => format!(
                "    b{b}[p] = v.x;\n    if count > 1u {{ b{b}[p + 1u] = v.y; }}\n    \
                 if count > 2u {{ b{b}[p + 2u] = v.z; }}\n    if count > 3u {{ b{b}[p + 3u] = v.w; }}\n"
            ),
        };
        shader.function(name, format!("fn {name}(p: u32, v: vec4<u32>, count: u32) {{\n{step}}}\n"));
    }
}
