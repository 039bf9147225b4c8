//! Parts of a kernel along one axis of its result, for devices that cannot see all of it at once.

use breakeven_ir::{
    AttentionKernel, ConvKernel, Gather, Kernel, Layout, Map, MatMul, Operand, ReduceRows, RowWiseKernel, ScanRows,
    Scatter, Shape, SortRows,
};

/// A stretch of an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub axis: usize,
    pub start: usize,
    pub count: usize,
}

/// Axes of the result along which the kernel can be run in parts.
pub(crate) fn axes(kernel: &Kernel) -> &[usize] {
    match kernel {
        Kernel::Map(k) => &k.out.layout.shape,
        Kernel::Reduce(k) => &k.outer,
        Kernel::Scan(k) => &k.outer,
        Kernel::RowWise(k) => &k.outer,
        Kernel::Sort(k) => &k.outer,
        Kernel::MatMul(k) => &k.out.layout.shape,
        Kernel::Conv(k) => &k.out.layout.shape,
        // A column of the result needs all weights of its row.
        Kernel::Attention(k) => &k.out.layout.shape[..=k.batch().len()],
        Kernel::Gather(k) => &k.out.layout.shape,
        Kernel::Scatter(k) => &k.outer,
        // Only its own code knows what an element of the result needs.
        Kernel::Custom(_) => &[],
    }
}

/// The kernel that computes one stretch of the result and reads only what that needs.
pub(crate) fn part(kernel: &Kernel, stretch: Stretch) -> Kernel {
    match kernel {
        Kernel::Map(k) => {
            let inputs = k.inputs.iter().map(|o| cut(o, stretch)).collect();
            Kernel::Map(Map { inputs, out: cut(&k.out, stretch), ..k.clone() })
        }
        Kernel::Reduce(k) => {
            let inputs = k.inputs.iter().map(|o| cut(o, stretch)).collect();
            let outs = k.outs.iter().map(|o| cut(o, stretch)).collect();
            Kernel::Reduce(ReduceRows { inputs, outs, outer: shorter(&k.outer, stretch), ..k.clone() })
        }
        Kernel::Scan(k) => {
            let outer = shorter(&k.outer, stretch);
            Kernel::Scan(ScanRows { input: cut(&k.input, stretch), out: cut(&k.out, stretch), outer, ..k.clone() })
        }
        Kernel::RowWise(k) => {
            let inputs = k.inputs.iter().map(|o| cut(o, stretch)).collect();
            let outer = shorter(&k.outer, stretch);
            Kernel::RowWise(RowWiseKernel { inputs, out: cut(&k.out, stretch), outer, ..k.clone() })
        }
        Kernel::Sort(k) => {
            let (outs, outer) = (k.outs.each_ref().map(|o| cut(o, stretch)), shorter(&k.outer, stretch));
            Kernel::Sort(SortRows { input: cut(&k.input, stretch), outs, outer, ..k.clone() })
        }
        Kernel::MatMul(k) => Kernel::MatMul(part_of_product(k, stretch)),
        Kernel::Conv(k) => Kernel::Conv(part_of_conv(k, stretch)),
        Kernel::Attention(k) => Kernel::Attention(part_of_attention(k, stretch)),
        Kernel::Gather(k) => Kernel::Gather(part_of_gather(k, stretch)),
        Kernel::Scatter(k) => Kernel::Scatter(Scatter {
            combine: k.combine,
            outer: shorter(&k.outer, stretch),
            source: cut(&k.source, stretch),
            index: cut(&k.index, stretch),
            updates: cut(&k.updates, stretch),
            out: cut(&k.out, stretch),
        }),
        Kernel::Custom(_) => unreachable!("it has no axes to be cut along"),
    }
}

fn part_of_product(k: &MatMul, stretch: Stretch) -> MatMul {
    let (rows, columns) = (k.batch.rank(), k.batch.rank() + 1);
    let mut part =
        MatMul { inputs: k.inputs.iter().map(|o| cut(o, stretch)).collect(), out: cut(&k.out, stretch), ..k.clone() };
    if stretch.axis != columns {
        part.a = cut(&k.a, stretch);
    }
    if stretch.axis != rows {
        part.b = cut(&k.b, stretch);
    }
    match stretch.axis {
        axis if axis == rows => part.m = stretch.count,
        axis if axis == columns => part.n = stretch.count,
        _ => part.batch = shorter(&k.batch, stretch),
    }
    part
}

fn part_of_conv(k: &ConvKernel, stretch: Stretch) -> ConvKernel {
    let mut part = ConvKernel {
        inputs: k.inputs.iter().map(|o| cut(o, stretch)).collect(),
        out: cut(&k.out, stretch),
        ..k.clone()
    };
    match stretch.axis {
        0 => part.x = cut(&k.x, stretch),
        1 => {
            part.x = cut(&k.x, stretch);
            part.weight = cut(&k.weight, Stretch { axis: 0, ..stretch });
        }
        2 => part.weight = cut(&k.weight, Stretch { axis: 1, ..stretch }),
        axis => see_less(&mut part, axis, stretch),
    }
    part
}

/// Only what the windows of a stretch see along a spatial axis.
fn see_less(part: &mut ConvKernel, axis: usize, Stretch { start, count, .. }: Stretch) {
    let extent = part.x.layout.shape[axis];
    let along = &mut part.along[axis - ConvKernel::LEAD];
    let reach = (part.weight.layout.shape[axis] - 1) * along.dilation + 1;
    let (first, end) = (start * along.stride, (start + count.max(1) - 1) * along.stride + reach);
    // In elements of the input; what comes before it stays padding.
    let (from, to) = (first.saturating_sub(along.before).min(extent), end.saturating_sub(along.before).min(extent));
    along.before = along.before.saturating_sub(first);
    along.count = count;
    part.x = cut(&part.x, Stretch { axis, start: from, count: to - from });
}

fn part_of_attention(k: &AttentionKernel, stretch: Stretch) -> AttentionKernel {
    let mut part = AttentionKernel {
        q: cut(&k.q, stretch),
        bias: k.bias.as_ref().map(|bias| cut(bias, stretch)),
        out: cut(&k.out, stretch),
        ..k.clone()
    };
    if stretch.axis == k.batch().len() {
        part.seen = k.seen.map(|seen| seen.saturating_add(stretch.start));
    } else {
        (part.k, part.v) = (cut(&k.k, stretch), cut(&k.v, stretch));
    }
    part
}

fn part_of_gather(k: &Gather, stretch: Stretch) -> Gather {
    let mut part = Gather { out: cut(&k.out, stretch), ..k.clone() };
    let picked = k.index.layout.shape.rank();
    if stretch.axis < k.axis {
        part.source = cut(&k.source, stretch);
    } else if stretch.axis < k.axis + picked {
        part.index = cut(&k.index, Stretch { axis: stretch.axis - k.axis, ..stretch });
    } else {
        part.source = cut(&k.source, Stretch { axis: stretch.axis + 1 - picked, ..stretch });
    }
    part
}

fn cut(operand: &Operand, Stretch { axis, start, count }: Stretch) -> Operand {
    Operand::new(operand.dtype, operand.layout.slice(axis, start, count, 1))
}

fn shorter(shape: &Shape, stretch: Stretch) -> Shape {
    shape.iter().enumerate().map(|(axis, &n)| if axis == stretch.axis { stretch.count } else { n }).collect()
}

/// How far apart the first and last element lie that a kernel with only the first index of `axis` would not see, for
/// each axis of the result: halving the largest halves what `operand` spans the most.
pub(crate) fn reaches(kernel: &Kernel, operand: usize) -> Vec<u64> {
    let all = kernel.inputs().into_iter().chain(kernel.outputs()).map(|o| span(&o.layout)).collect::<Vec<_>>();
    let one = |(axis, &extent): (usize, &usize)| {
        if extent < 2 {
            return 0;
        }
        let thin = part(kernel, Stretch { axis, start: 0, count: 1 });
        let left = thin.inputs().into_iter().chain(thin.outputs()).nth(operand).map_or(0, |o| span(&o.layout));
        all[operand] - left
    };
    axes(kernel).iter().enumerate().map(one).collect()
}

/// Elements between the first and the last place of a layout, both counted.
pub(crate) fn span(layout: &Layout) -> u64 {
    layout.span().map_or(0, |(low, high)| (high - low) as u64 + 1)
}
