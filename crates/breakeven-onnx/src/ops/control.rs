//! Branches and loops, driven by the host: what a branch is taken by is read, and bodies are walked again in each turn.

use std::sync::Arc;

use breakeven::{Tensor, stack};

use super::{Operator, axis, many};
use crate::call::{Call, Result};
use crate::error::wrong;
use crate::graph::Graph;
use crate::host;
use crate::value::{Constant, Item};

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    many("If", &["else_branch", "then_branch"], branch),
    many("Loop", &["body"], repeat),
    many(
        "Scan",
        &[
            "body",
            "directions",
            "num_scan_inputs",
            "scan_input_axes",
            "scan_input_directions",
            "scan_output_axes",
            "scan_output_directions",
        ],
        scan,
    ),
];

fn branch(call: &Call<'_>) -> Result<Vec<Item>> {
    let taken = if call.one_int(0)? != 0 { "then_branch" } else { "else_branch" };
    let graph = call.graph(taken)?;
    call.run_graph(&graph, Vec::new())
}

/// The body gives whether to go on, the states, and one element of each list.
fn repeat(call: &Call<'_>) -> Result<Vec<Item>> {
    let body = call.graph("body")?;
    let most = if call.has(0) { call.one_int(0)? } else { i64::MAX };
    let mut goes_on = !call.has(1) || call.one_int(1)? != 0;
    let mut states = (2..call.count()).map(|i| Ok(call.item(i)?.clone())).collect::<Result<Vec<Item>>>()?;
    let lists = body.outputs.len().checked_sub(1 + states.len());
    let Some(lists) = lists else { return wrong("its body gives fewer values than the loop carries") };
    let mut lists: Vec<Vec<Tensor>> = vec![Vec::new(); lists];
    let mut turn = 0;
    while goes_on && turn < most {
        call.step(turn as usize)?;
        let known = |tensor: Tensor| Item::Constant(Arc::new(Constant::new(tensor, false)));
        let mut given = vec![known(call.known(vec![turn], ())), known(call.known(vec![true], ()))];
        given.append(&mut states);
        let mut outputs = call.run_graph(&body, given)?.into_iter();
        let Some(condition) = outputs.next() else { return wrong("its body gives nothing") };
        states = outputs.by_ref().take(call.count().saturating_sub(2)).collect();
        for (list, item) in lists.iter_mut().zip(outputs) {
            list.push(call.on_target(&item)?);
        }
        goes_on = holds(call, &condition, &states, &lists)?;
        turn += 1;
    }
    let ends = &body.outputs[1 + states.len()..];
    let lists = lists.into_iter().enumerate();
    let joined = lists.map(|(i, list)| Ok(Item::Tensor(listed(call, &list, &ends[i].kind, 0)?)));
    states.into_iter().map(Ok).chain(joined).collect()
}

/// Reads the condition. Where that computes something, what the loop carries is computed with it: else each turn would
/// compute all turns before it again.
fn holds(call: &Call<'_>, condition: &Item, states: &[Item], lists: &[Vec<Tensor>]) -> Result<bool> {
    if let Item::Tensor(condition) = condition {
        let carried = states.iter().filter_map(|state| if let Item::Tensor(t) = state { Some(t) } else { None });
        let newest = lists.iter().filter_map(|list| list.last());
        call.compute(&carried.chain(newest).chain([condition]).collect::<Vec<_>>())?;
    }
    Ok(host::ints(&call.readable(condition)?)?.first().is_some_and(|&c| c != 0))
}

/// One tensor of all elements of a list; of none, it has the type that the body promises.
fn listed(call: &Call<'_>, list: &[Tensor], kind: &crate::graph::PortKind, along: isize) -> Result<Tensor> {
    use crate::graph::{Dim, PortKind};
    if !list.is_empty() {
        return Ok(stack(&list.iter().collect::<Vec<_>>(), along));
    }
    let PortKind::Tensor { dtype, dims } = kind else { return wrong("a list of no elements has no type") };
    let extent = |dim: &Dim| if let Dim::Fixed(n) = dim { *n } else { 0 };
    let mut dims: Vec<usize> = dims.iter().flatten().map(extent).collect();
    dims.insert((along as usize).min(dims.len()), 0);
    Ok(call.target().full(*dtype, 0.0, super::shape(&dims)?))
}

/// How the axes of scanned inputs or outputs are walked.
struct Walk {
    axes: Vec<i64>,
    backwards: Vec<bool>,
}

impl Walk {
    fn of(call: &Call<'_>, which: &str, count: usize) -> Result<Walk> {
        let axes = call.list(&format!("scan_{which}_axes"))?.map_or_else(|| vec![0; count], <[i64]>::to_vec);
        let given = call.list(&format!("scan_{which}_directions"))?;
        let backwards: Vec<bool> = given.map_or_else(|| vec![false; count], |d| d.iter().map(|&d| d != 0).collect());
        if axes.len() != count || backwards.len() != count {
            return wrong(format!("its axes and directions must be {count} for its {which}s"));
        }
        Ok(Walk { axes, backwards })
    }
}

fn scan(call: &Call<'_>) -> Result<Vec<Item>> {
    let body = call.graph("body")?;
    let scanned = super::extents(&[call.int("num_scan_inputs", 0)?])?[0];
    if call.opset() < 9 {
        return scan_batches(call, &body, scanned);
    }
    let Some(carried) = call.count().checked_sub(scanned) else { return wrong("has fewer inputs than it scans") };
    let states = (0..carried).map(|i| Ok(call.item(i)?.clone())).collect::<Result<Vec<_>>>()?;
    let inputs = (carried..call.count()).map(|i| call.tensor(i)).collect::<Result<Vec<_>>>()?;
    scan_one(call, &body, states, &inputs)
}

/// Before opset 9 the first axis is a batch, the lengths are optional and come first.
fn scan_batches(call: &Call<'_>, body: &Graph, scanned: usize) -> Result<Vec<Item>> {
    if call.has(0) {
        return crate::error::unsupported("lengths that differ between samples");
    }
    let all = (1..call.count()).map(|i| call.tensor(i)).collect::<Result<Vec<_>>>()?;
    let Some(carried) = all.len().checked_sub(scanned) else { return wrong("has fewer inputs than it scans") };
    let batch = all.first().map_or(Ok(0), |t| t.check().map(|s| s.shape.first().copied().unwrap_or(0)))?;
    let mut outputs: Vec<Vec<Tensor>> = Vec::new();
    for sample in 0..batch {
        call.step(sample)?;
        let one: Vec<Tensor> = all.iter().map(|t| t.slice(0, sample..=sample).squeeze(0)).collect();
        let states = one[..carried].iter().cloned().map(|t| call.settled(t)).collect();
        let given = scan_one(call, body, states, &one[carried..])?;
        outputs.resize(given.len(), Vec::new());
        for (output, item) in outputs.iter_mut().zip(&given) {
            output.push(call.on_target(item)?);
        }
    }
    if batch == 0 {
        return crate::error::unsupported("a batch of no samples");
    }
    Ok(outputs.iter().map(|samples| stack(&samples.iter().collect::<Vec<_>>(), 0).into()).collect())
}

fn scan_one(call: &Call<'_>, body: &Graph, mut states: Vec<Item>, inputs: &[Tensor]) -> Result<Vec<Item>> {
    let Some(lists) = body.outputs.len().checked_sub(states.len()) else {
        return wrong("its body gives fewer values than it carries");
    };
    let (walk, out) = (Walk::of(call, "input", inputs.len())?, Walk::of(call, "output", lists)?);
    let axes = inputs.iter().zip(&walk.axes).map(|(t, &a)| axis(a, t.check()?.shape.rank()));
    let axes = axes.collect::<Result<Vec<usize>>>()?;
    let counts: Vec<usize> = inputs.iter().zip(&axes).map(|(t, &a)| t.shape()[a]).collect();
    let Some(&count) = counts.first() else { return wrong("scans nothing") };
    if counts.iter().any(|&n| n != count) {
        return wrong(format!("scans inputs of {counts:?} steps"));
    }
    let mut lists: Vec<Vec<Tensor>> = vec![Vec::new(); lists];
    for turn in 0..count {
        call.step(turn)?;
        let mut given = states;
        for (i, input) in inputs.iter().enumerate() {
            let at = if walk.backwards[i] { count - 1 - turn } else { turn };
            let along = axes[i] as isize;
            given.push(call.settled(input.slice(along, at..=at).squeeze(along)));
        }
        let carried = given.len() - inputs.len();
        let mut outputs = call.run_graph(body, given)?.into_iter();
        states = outputs.by_ref().take(carried).collect();
        for (list, item) in lists.iter_mut().zip(outputs) {
            list.push(call.on_target(&item)?);
        }
    }
    let ends = &body.outputs[states.len()..];
    let joined = lists.into_iter().enumerate().map(|(i, mut list)| {
        if out.backwards[i] {
            list.reverse();
        }
        let rank = list.first().map_or(Ok(0), |t| t.check().map(|s| s.shape.rank()))?;
        let along = axis(out.axes[i], rank + 1)? as isize;
        Ok(Item::Tensor(listed(call, &list, &ends[i].kind, along)?))
    });
    states.into_iter().map(Ok).chain(joined).collect()
}
