//! Convolutions.

use breakeven_ir::{ConvKernel, DType, Expr, Kernel, Layout, Operand, Sliding};

use super::{chain, dtypes};
use crate::{Bench, Case, Tier, data, views};

/// A convolution of dense operands.
#[derive(Clone, Copy)]
struct Shapes<'a> {
    /// Images, groups, output channels and input channels of each group.
    lead: [usize; 4],
    /// For each spatial axis: extent, size of a window, stride, dilation, zeros before and after.
    along: &'a [[usize; 6]],
}

const fn shapes(lead: [usize; 4], along: &[[usize; 6]]) -> Shapes<'_> {
    Shapes { lead, along }
}

/// One to three axes; windows of one element, as large as the input, larger, beside it; strides beyond the window; zeros on
/// one side; groups, depthwise with one and several outputs; extents around lanes, tiles and blocks.
const SHAPES: &[Shapes<'_>] = &[
    shapes([1, 1, 1, 1], &[[1, 1, 1, 1, 0, 0]]),
    shapes([2, 1, 3, 2], &[[7, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 5, 3], &[[67, 4, 3, 2, 2, 5]]),
    shapes([1, 2, 2, 3], &[[9, 1, 2, 1, 0, 0]]),
    shapes([1, 1, 4, 3], &[[8, 3, 1, 1, 1, 1], [9, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 9, 5], &[[6, 1, 1, 1, 0, 0], [7, 1, 1, 1, 0, 0]]),
    shapes([2, 1, 17, 33], &[[5, 1, 1, 1, 0, 0], [13, 1, 1, 1, 0, 0]]),
    shapes([1, 1, 8, 3], &[[17, 7, 2, 1, 3, 3], [19, 7, 2, 1, 3, 3]]),
    shapes([2, 3, 2, 2], &[[5, 2, 1, 1, 0, 1], [6, 3, 2, 1, 1, 0]]),
    shapes([1, 5, 1, 1], &[[11, 3, 1, 1, 1, 1], [13, 3, 1, 1, 1, 1]]),
    shapes([2, 3, 1, 1], &[[12, 3, 2, 1, 1, 1], [35, 3, 2, 1, 0, 1]]),
    shapes([1, 4, 1, 1], &[[9, 5, 1, 1, 2, 2], [20, 5, 1, 1, 2, 2]]),
    shapes([1, 4, 3, 1], &[[9, 5, 2, 1, 2, 2], [10, 5, 2, 1, 2, 2]]),
    shapes([1, 2, 1, 1], &[[70, 3, 1, 1, 1, 1], [33, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 3, 2], &[[4, 3, 1, 3, 3, 3], [5, 2, 1, 4, 0, 2]]),
    shapes([1, 1, 2, 2], &[[3, 5, 1, 1, 4, 4], [2, 3, 2, 1, 3, 3]]),
    shapes([1, 1, 2, 3], &[[6, 2, 4, 1, 0, 0], [7, 1, 3, 1, 0, 0]]),
    shapes([1, 1, 12, 16], &[[7, 3, 1, 1, 1, 1], [7, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 2, 2], &[[3, 2, 1, 1, 0, 0], [4, 3, 1, 1, 1, 1], [5, 2, 2, 1, 1, 0]]),
    shapes([1, 2, 3, 1], &[[4, 3, 1, 2, 2, 2], [3, 1, 1, 1, 0, 0], [6, 3, 1, 1, 1, 1]]),
    shapes([3, 1, 70, 5], &[[1, 1, 1, 1, 0, 0], [1, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 66, 9], &[[12, 3, 1, 1, 1, 1], [12, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 12, 2], &[[65, 3, 1, 1, 1, 1], [67, 3, 1, 1, 1, 1]]),
    shapes([1, 1, 10, 3], &[[9, 3, 1, 1, 1, 1], [5, 3, 1, 1, 0, 1], [4, 2, 1, 1, 1, 0]]),
    shapes([0, 1, 2, 2], &[[3, 2, 1, 1, 0, 0]]),
];

/// Every number type the device has: shapes and views of either operand and the output; special values beside zeros,
/// epilogues, windows that all lie outside the input.
pub fn convs(bench: &mut Bench<'_>, tier: Tier) {
    for dtype in dtypes(bench).into_iter().filter(|&d| d != DType::Bool) {
        for shapes in SHAPES {
            bench.add(case(&plain(dtype, *shapes), ""));
        }
        looked_at(bench, dtype);
    }
    for &special in data::special(DType::F32) {
        for side in 0..2 {
            for at in [4, 9, 12] {
                bench.add(
                    case(&plain(DType::F32, SHAPES[at]), &format!("with {special} last on side {side}"))
                        .last(side, special),
                );
            }
        }
    }
    outside(bench);
    for at in [2, 4, 6, 9, 16, 18] {
        epilogues(bench, SHAPES[at]);
    }
    if tier == Tier::Full {
        for along in [[[61, 3, 1, 1, 1, 1], [67, 3, 1, 1, 1, 1]], [[33, 1, 1, 1, 0, 0], [131, 1, 1, 1, 0, 0]]] {
            bench.add(case(&plain(DType::F32, shapes([1, 1, 21, 35], &along)), ""));
            bench.add(case(&plain(DType::F32, shapes([2, 30, 1, 1], &along)), ""));
        }
    }
}

/// Dense operands.
fn plain(dtype: DType, Shapes { lead: [n, groups, outs, channels], along }: Shapes<'_>) -> ConvKernel {
    let sliding = |&[extent, size, stride, dilation, before, after]: &[usize; 6]| {
        let room = (extent + before + after).checked_sub((size - 1) * dilation + 1);
        Sliding { stride, dilation, before, count: room.map_or(1, |room| room / stride + 1) }
    };
    let sliding: Vec<Sliding> = along.iter().map(sliding).collect();
    let spatial = |at: usize| along.iter().map(move |axis| axis[at]).collect::<Vec<_>>();
    let counts: Vec<usize> = sliding.iter().map(|s| s.count).collect();
    let dense =
        |lead: [usize; 3], rest: &[usize]| Operand::new(dtype, Layout::dense([&lead[..], rest].concat().as_slice()));
    ConvKernel {
        x: dense([n, groups, channels], &spatial(0)),
        weight: dense([groups, outs, channels], &spatial(1)),
        post: Expr::identity(dtype),
        params: vec![],
        inputs: vec![],
        out: dense([n, groups, outs], &counts),
        along: sliding.into_iter().collect(),
    }
}

/// The kernel that stands for all in the table of what devices support.
pub(super) fn witness(dtype: DType) -> Kernel {
    Kernel::Conv(plain(dtype, SHAPES[4]))
}

fn case(k: &ConvKernel, view: &str) -> Case {
    let (x, weight) = (&k.x.layout.shape, &k.weight.layout.shape);
    Case::new(format!("conv {} of {x} by {weight} {:?} {view}", k.x.dtype, k.along), Kernel::Conv(k.clone()))
}

fn looked_at(bench: &mut Bench<'_>, dtype: DType) {
    // Other types differ in how elements are loaded, not in where.
    let shapes: &[usize] = if dtype == DType::F32 { &[1, 4, 5, 6, 9, 10] } else { &[4, 9] };
    for &at in shapes {
        let dense = plain(dtype, SHAPES[at]);
        for (view, layout) in views::all(dense.x.layout.shape.clone()) {
            bench.add(case(&ConvKernel { x: Operand::new(dtype, layout), ..dense.clone() }, &format!("input {view}")));
        }
        for (view, layout) in views::all(dense.weight.layout.shape.clone()) {
            let kernel = ConvKernel { weight: Operand::new(dtype, layout), ..dense.clone() };
            bench.add(case(&kernel, &format!("weight {view}")));
        }
        for (view, layout) in views::distinct(dense.out.layout.shape.clone()) {
            bench.add(case(
                &ConvKernel { out: Operand::new(dtype, layout), ..dense.clone() },
                &format!("output {view}"),
            ));
        }
    }
}

/// Windows before, between and behind the input, and an input of which a part has nothing.
fn outside(bench: &mut Bench<'_>) {
    let dense = plain(DType::F32, shapes([1, 1, 2, 2], &[[3, 2, 1, 1, 0, 0], [5, 3, 1, 1, 0, 0]]));
    for (before, count) in [(9, 4), (4, 12), (0, 20)] {
        let mut kernel = dense.clone();
        kernel.along[1] = Sliding { stride: 3, dilation: 2, before, count };
        kernel.out = Operand::new(DType::F32, Layout::dense([1, 1, 2, 2, count]));
        bench.add(case(&kernel, "outside"));
    }
    let x = Operand::new(DType::F32, dense.x.layout.slice(3, 0, 0, 1));
    bench.add(case(&ConvKernel { x, ..dense }, "of nothing"));
}

/// A bias for each channel, a residual, activations.
fn epilogues(bench: &mut Bench<'_>, shapes: Shapes<'_>) {
    let dense = plain(DType::F32, shapes);
    let out = &dense.out.layout.shape;
    let spatial: Vec<usize> = (ConvKernel::LEAD..out.rank()).collect();
    let bias = Operand::new(DType::F32, views::repeated(out, &[&[0], &spatial[..]].concat()));
    let residual = Operand::new(DType::F32, Layout::dense(out.clone()));
    let chains: [(&[&str], Vec<Operand>); 4] = [
        (&["add"], vec![bias.clone()]),
        (&["add", "relu"], vec![bias.clone()]),
        (&["add", "add"], vec![bias, residual]),
        (&["leaky_relu", "tanh"], vec![]),
    ];
    for (names, inputs) in chains {
        let post = chain(names);
        let params = vec![0.25; post.params()];
        bench.add(case(&ConvKernel { post, params, inputs, ..dense.clone() }, &format!("then {names:?}")));
    }
}
