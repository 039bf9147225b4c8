//! Operands: where they lie and how their elements are stored.

use std::ops::Range;

use breakeven_ir::{DType, Layout, Operand, Shape};

/// What a binding stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A slot of the segment.
    Slot(usize),
    /// The launch's scratch memory.
    Scratch,
}

/// How elements are stored: as their type says, or, in scratch memory, one word for each narrow element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Type of the elements.
    pub dtype: DType,
    /// Narrow elements stored as words.
    pub in_words: bool,
}

/// Parts of words, words, or pairs of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Four elements to a word.
    Byte,
    /// Two elements to a word.
    Half,
    /// One element to a word.
    Word,
    /// Two words to an element.
    Pair,
}

impl Stored {
    /// Parts of words, words or pairs.
    pub fn width(self) -> Width {
        match self.dtype.bytes() {
            1 if !self.in_words => Width::Byte,
            2 if !self.in_words => Width::Half,
            8 => Width::Pair,
            _ => Width::Word,
        }
    }

    /// Several elements share a word.
    pub fn is_packed(self) -> bool {
        matches!(self.width(), Width::Byte | Width::Half)
    }

    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        match self.width() {
            Width::Byte => 1,
            Width::Half => 2,
            Width::Word => 4,
            Width::Pair => 8,
        }
    }

    /// The value in the word `w`.
    pub fn of_word(self, w: &str) -> String {
        match self.dtype {
            DType::F32 => format!("bitcast<f32>({w})"),
            DType::I32 => format!("bitcast<i32>({w})"),
            DType::I16 | DType::I8 => super::wrapped(self.dtype, &format!("bitcast<i32>({w})")),
            DType::Bool => format!("({w}) != 0u"),
            _ => w.to_owned(),
        }
    }

    /// The word that holds the value `v`.
    pub fn as_word(self, v: &str) -> String {
        match self.dtype {
            DType::F32 | DType::I32 => format!("bitcast<u32>({v})"),
            DType::I16 => format!("bitcast<u32>({v}) & 65535u"),
            DType::I8 => format!("bitcast<u32>({v}) & 255u"),
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
    /// Bound as quads of f16, which it has, for a kernel that reads nothing else of it.
    pub is_native: bool,
    /// Rows end with whole quads. What is written past their ends is nobody's; where products read them, it is 0.
    pub is_padded: bool,
}

impl Tensor {
    /// An operand of the kernel in a slot.
    pub fn slot(operand: &Operand, slot: usize) -> Tensor {
        let stored = Stored { dtype: operand.dtype, in_words: false };
        Tensor::at(Place::Slot(slot), stored, operand.layout.clone())
    }

    /// Dense scratch memory from byte `start` on, one word (or pair) for each element.
    pub fn scratch(dtype: DType, shape: &Shape, start: u64) -> Tensor {
        let stored = Stored { dtype, in_words: true };
        let mut layout = Layout::dense(shape.clone());
        layout.offset = (start / stored.bytes()) as usize;
        Tensor::at(Place::Scratch, stored, layout)
    }

    /// Scratch memory from byte `start` on for elements as their type says, in rows along the axes of `shape` after the first
    /// `lead`. Each begins at a multiple of `grain` elements, a multiple of four, and ends with a quad that it may fill only in part.
    pub fn padded(dtype: DType, (shape, lead): (&Shape, usize), grain: usize, start: u64) -> Tensor {
        let stored = Stored { dtype, in_words: false };
        let (outer, inner) = shape.split_at(lead);
        let pitch = inner.iter().product::<usize>().next_multiple_of(grain);
        let mut whole = Layout::dense(outer.iter().copied().chain([pitch]).collect::<Shape>());
        whole.offset = (start / stored.bytes()) as usize;
        let strides = whole.strides[..lead].iter().chain(&Layout::dense(inner).strides).copied().collect();
        let layout = Layout { shape: shape.clone(), offset: whole.offset, strides };
        Tensor { whole: Some(whole), is_padded: true, ..Tensor::at(Place::Scratch, stored, layout) }
    }

    /// True where rows of `length` elements may be read and written by whole quads.
    pub fn is_of_whole_quads(&self, length: usize) -> bool {
        self.is_padded || length.is_multiple_of(4)
    }

    fn at(place: Place, stored: Stored, layout: Layout) -> Tensor {
        Tensor { place, stored, layout, whole: None, is_native: false, is_padded: false }
    }

    /// The bytes of its buffer that may be touched.
    pub fn bytes(&self) -> Range<u64> {
        let (low, high) = self.whole.as_ref().unwrap_or(&self.layout).span().unwrap_or((0, 0));
        low as u64 * self.stored.bytes()..(high as u64 + 1) * self.stored.bytes()
    }

    /// True when four elements from any multiple of four on lie in one aligned quad, given that they are neighbours.
    pub fn is_aligned(&self) -> bool {
        self.layout.offset.is_multiple_of(4)
    }
}
