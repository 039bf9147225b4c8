//! Telling graphs apart by a number that means the same in every process.

use std::hash::{Hash, Hasher};

use crate::{Graph, Node, Op, Precision, Row, RowWise};

impl Graph {
    /// A number that graphs share only if they are alike in every node, number and output; linear in the nodes. It is for
    /// finding mistakes, not for defence: someone who wants two graphs of one fingerprint can make them.
    pub fn fingerprint(&self) -> u64 {
        self.hashed_with(f64::to_bits)
    }

    /// As [`Graph::fingerprint`], which graphs also share that differ in what [`Op::Fill`] is filled with.
    pub fn fingerprint_without_numbers(&self) -> u64 {
        self.hashed_with(|_| 0)
    }

    /// Says to `hasher` what is in a fingerprint, without what rows from outside the table do: for finding a graph among others of one
    /// process, which are then compared.
    pub fn hash_into(&self, hasher: &mut impl Hasher) {
        self.feed(hasher, f64::to_bits, |_, _| {});
    }

    fn hashed_with(&self, number: impl Fn(f64) -> u64) -> u64 {
        let (mut mix, mut foreign) = (Mix(0), Foreign::default());
        self.feed(&mut mix, number, |row, mix| foreign.row_into(row, mix));
        mix.finish()
    }

    fn feed<H: Hasher>(&self, hasher: &mut H, number: impl Fn(f64) -> u64, mut row_into: impl FnMut(Row, &mut H)) {
        for node in self.nodes() {
            node_into(node, hasher);
            match node.op {
                Op::Fill(value) => number(value).hash(hasher),
                Op::Map(row, _) => row_into(row, hasher),
                _ => {}
            }
        }
        self.outputs().hash(hasher);
    }
}

fn node_into<H: Hasher>(node: &Node, hasher: &mut H) {
    node.op.name().hash(hasher);
    (&node.inputs, &node.spec).hash(hasher);
    match &node.op {
        Op::Map(_, params) => params.iter().for_each(|number| number.to_bits().hash(hasher)),
        Op::Cast(dtype) => dtype.hash(hasher),
        Op::View(view) => view.hash(hasher),
        Op::Reduce(reduce) => reduce.hash(hasher),
        Op::Scan(scan) => scan.hash(hasher),
        Op::Scatter(axis, combine) => (axis, combine).hash(hasher),
        Op::Sort(sort) => sort.hash(hasher),
        Op::RowWise(RowWise::LayerNorm { epsilon } | RowWise::RmsNorm { epsilon }, axis) => {
            (epsilon.to_bits(), axis).hash(hasher);
        }
        Op::RowWise(RowWise::Softmax | RowWise::LogSoftmax, axis) | Op::Gather(axis) | Op::Concat(axis) => {
            axis.hash(hasher);
        }
        Op::Conv(convolution) => convolution.hash(hasher),
        Op::Attention(attention) => (attention.scale.to_bits(), attention.seen).hash(hasher),
        Op::Custom(op, params) => {
            params.iter().for_each(|number| number.to_bits().hash(hasher));
            op.wgsl_code().map(|code| (code.functions(), code.body())).hash(hasher);
        }
        Op::Output(output) => output.hash(hasher),
        // The usual one adds nothing, so that plans that were frozen before there was another one stay valid.
        Op::Input | Op::Fill(_) | Op::MatMul(Precision::Highest) | Op::MatMulInt => {}
        Op::MatMul(precision) => precision.name().hash(hasher),
    }
}

/// Rows from outside the table, whose names say nothing: what they do is part of the graph.
#[derive(Default)]
struct Foreign(Vec<(Row, u64)>);

impl Foreign {
    fn row_into(&mut self, row: Row, mix: &mut Mix) {
        if row.index().is_some() {
            return;
        }
        let known = self.0.iter().find(|(other, _)| *other == row).map(|(_, meaning)| *meaning);
        let meaning = known.unwrap_or_else(|| {
            let mut own = Mix(0);
            row.family.dtypes().into_iter().for_each(|dtype| format!("{:?}", row.body(dtype)).hash(&mut own));
            self.0.push((row, own.finish()));
            own.finish()
        });
        meaning.hash(mix);
    }
}

/// The standard library's hasher may change with its version, and what is frozen is read by later ones.
struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        // An odd constant with no pattern in its bits: the fractional part of the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.word(u64::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.word(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.word(word as u64);
    }

    /// Multiplication carries upwards alone, so the low bits are mixed in the end.
    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Row, Spec};

    fn graph(n: usize, slope: f64) -> Graph {
        let mut graph = Graph::new();
        let x = graph.input(Spec::new(DType::F32, [n]));
        let row = Row::named("leaky_relu").expect("a row");
        let y = graph.add(Op::Map(row, [slope].as_slice().into()), &[x]).expect("it fits");
        graph.want(y);
        graph
    }

    #[test]
    fn graphs_that_differ_in_anything_differ() {
        let one = graph(8, 0.5).fingerprint();
        assert_eq!(one, graph(8, 0.5).fingerprint());
        let mut unread = graph(8, 0.5);
        unread.want(crate::NodeId(0));
        for other in [graph(9, 0.5), graph(8, 0.25), unread] {
            assert_ne!(other.fingerprint(), one);
        }
    }

    #[test]
    fn products_of_another_precision_are_other_graphs() {
        let product = |op: Op| {
            let mut graph = Graph::new();
            let x = graph.input(Spec::new(DType::F32, [2, 2]));
            let y = graph.add(op, &[x, x]).expect("it fits");
            graph.want(y);
            graph.fingerprint()
        };
        let [highest, high, medium] = Precision::ALL.map(|precision| product(Op::MatMul(precision)));
        assert!(highest != high && high != medium && highest != medium);
        assert_eq!(highest, product(Op::matmul()));
    }

    #[test]
    fn rows_of_one_name_are_told_apart_by_what_they_do() {
        crate::row! {
            /// The wrong sum.
            static WRONG = add: Number(a: V, b: V) -> V [crate::Tolerance::EXACT] = a - b;
        }
        let sum = |row: Row| {
            let mut graph = Graph::new();
            let x = graph.input(Spec::new(DType::F32, [2]));
            let y = graph.add(Op::Map(row, crate::Params::new()), &[x, x]).expect("it fits");
            graph.want(y);
            graph
        };
        let table = Row::named("add").expect("a row");
        assert_ne!(table, WRONG);
        assert_ne!(sum(table).fingerprint(), sum(WRONG).fingerprint());
        assert_eq!(sum(WRONG).fingerprint(), sum(WRONG).fingerprint());
    }

    #[test]
    fn it_means_the_same_in_every_process() {
        assert_eq!(graph(8, 0.5).fingerprint(), 0xc5b5_9acb_0fcd_f03a);
    }
}
