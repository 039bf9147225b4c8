//! Contractions by index, in Einstein's notation.

use std::collections::BTreeSet;
use std::panic::Location;

use breakeven_ir::{CallError, DType, Fold, MAX_RANK, Shape};

use super::{composed, need, right};
use crate::Tensor;
use crate::maps::{position, row};

/// Labels of an operand's axes. Axes under an ellipsis have labels of their own, from 256 on.
type Labels = Vec<u32>;

/// Sum of products over the labels that the result does not have: `einsum("bij,bjk->bik", &[&a, &b])`. Without an arrow
/// the result has the labels that occur once, in order of the alphabet; `...` stands for axes that are broadcast.
///
/// # Panics
/// When there is no tensor at all.
#[must_use]
#[track_caller]
pub fn einsum(equation: &str, tensors: &[&Tensor]) -> Tensor {
    composed(tensors, Location::caller(), || {
        let (inputs, output) = parse(equation, tensors)?;
        let mut parts: Vec<Part> = Vec::new();
        for (labels, tensor) in inputs.into_iter().zip(tensors) {
            parts.push(Part { labels, tensor: (*tensor).clone() }.diagonal()?);
        }
        parts.reverse();
        let mut all = parts.pop().expect("einsum takes at least one tensor");
        while let Some(next) = parts.pop() {
            let needed: BTreeSet<u32> = parts.iter().flat_map(|p| p.labels.iter()).chain(&output).copied().collect();
            all = product(&all, &next, &needed)?;
        }
        let needed: BTreeSet<u32> = output.iter().copied().collect();
        Ok(all.summed(|label| !needed.contains(&label)).ordered(&output)?.tensor)
    })
}

impl Tensor {
    /// `[n]` and `[m]` to `[n, m]`: every product of two elements.
    #[must_use]
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        composed(&[self, other], Location::caller(), || {
            let vectors = self.shape().rank() == 1 && other.shape().rank() == 1;
            need(vectors, "outer", || "takes two vectors".to_owned())?;
            Ok(self.unsqueeze(-1) * other)
        })
    }

    /// Sum of the products of two vectors.
    #[must_use]
    #[track_caller]
    pub fn dot(&self, other: &Tensor) -> Tensor {
        const MUL: usize = position("mul");
        let at = Location::caller();
        composed(&[self, other], at, || {
            let vectors = self.shape().rank() == 1 && self.shape() == other.shape();
            need(vectors, "dot", || "takes two vectors of one length".to_owned())?;
            let is_summed_in_double = matches!(self.dtype(), DType::F32 | DType::F64) && self.dtype() == other.dtype();
            let products = || self.folded(row(MUL), &[other], (Fold::Sum, &(..).into()), at);
            Ok(if is_summed_in_double { products() } else { self.matmul(other) })
        })
    }
}

fn wrong(message: impl Into<String>) -> CallError {
    CallError::new("einsum", message)
}

/// Labels of each operand and of the result.
fn parse(equation: &str, tensors: &[&Tensor]) -> Result<(Vec<Labels>, Labels), CallError> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = text.split_once("->").map_or((text.as_str(), None), |(l, r)| (l, Some(r)));
    let terms: Vec<&str> = left.split(',').collect();
    let count = || wrong(format!("\"{equation}\" names {} tensors, {} were given", terms.len(), tensors.len()));
    if terms.len() != tensors.len() {
        return Err(count());
    }
    let named = |term: &str| term.replace("...", "").chars().count();
    let rest = |(term, t): (&&str, &&Tensor)| {
        let rank = t.shape().rank();
        let fits = if term.contains("...") { named(term) <= rank } else { named(term) == rank };
        let text = || wrong(format!("\"{term}\" does not fit a tensor of rank {rank}"));
        if fits { Ok(rank - named(term)) } else { Err(text()) }
    };
    let spans = terms.iter().zip(tensors).map(rest).collect::<Result<Vec<usize>, _>>()?;
    let most = spans.iter().copied().max().unwrap_or(0);
    let inputs = terms.iter().zip(&spans).map(|(term, &n)| labels(term, n, most)).collect::<Result<Vec<_>, _>>()?;
    let output = match right {
        Some(right) => labels(right, most, most)?,
        None => implied(&inputs, most),
    };
    let known: BTreeSet<u32> = inputs.iter().flatten().copied().collect();
    let distinct: BTreeSet<u32> = output.iter().copied().collect();
    if distinct.len() != output.len() || !distinct.is_subset(&known) {
        return Err(wrong(format!("the result of \"{equation}\" must name labels of the tensors, each once")));
    }
    Ok((inputs, output))
}

/// Labels of one term, whose ellipsis stands for `count` axes of `most`, aligned to the right.
fn labels(term: &str, count: usize, most: usize) -> Result<Labels, CallError> {
    let under = (most - count..most).map(|i| 256 + i as u32);
    let mut all = Labels::new();
    let (before, after) = term.split_once("...").map_or((term, None), |(b, a)| (b, Some(a)));
    let letters = |part: &str| -> Result<Labels, CallError> {
        let bad = part.chars().find(|c| !c.is_ascii_alphabetic());
        bad.map_or_else(|| Ok(part.chars().map(u32::from).collect()), |c| Err(wrong(format!("'{c}' is no label"))))
    };
    all.extend(letters(before)?);
    if let Some(after) = after {
        all.extend(under);
        all.extend(letters(after)?);
    }
    Ok(all)
}

/// The axes under ellipses, then the labels that occur once, in order of the alphabet.
fn implied(inputs: &[Labels], most: usize) -> Labels {
    let once = |label: &u32| inputs.iter().flatten().filter(|l| *l == label).count() == 1;
    let letters: BTreeSet<u32> = inputs.iter().flatten().copied().filter(|l| *l < 256 && once(l)).collect();
    (0..most).map(|i| 256 + i as u32).chain(letters).collect()
}

/// A tensor whose axes have labels.
struct Part {
    labels: Labels,
    tensor: Tensor,
}

impl Part {
    fn extent(&self, label: u32) -> Option<usize> {
        self.labels.iter().position(|&l| l == label).map(|axis| self.tensor.shape()[axis])
    }

    /// Labels that occur twice become one: what is off their diagonal is left out.
    fn diagonal(self) -> Result<Part, CallError> {
        let Part { mut labels, mut tensor } = self;
        while let Some((first, second)) = twice(&labels) {
            let (n, rank) = (tensor.shape()[first], labels.len());
            if n != tensor.shape()[second] {
                return Err(wrong(format!("one label stands for extents {n} and {}", tensor.shape()[second])));
            }
            let dims: Shape = (0..rank).map(|a| if a == first || a == second { n } else { 1 }).collect();
            let on = tensor.engine().eye(DType::Bool, n, n, 0).reshape(dims);
            tensor = right(&on.where_(&tensor, &tensor.zero()).sum(second as isize))?.clone();
            labels.remove(second);
        }
        Ok(Part { labels, tensor })
    }

    /// Summed over the labels for which `goes` holds.
    fn summed(self, goes: impl Fn(u32) -> bool) -> Part {
        let axes: Vec<isize> = (0..self.labels.len()).filter(|&a| goes(self.labels[a])).map(|a| a as isize).collect();
        if axes.is_empty() {
            return self;
        }
        let labels = self.labels.into_iter().filter(|&l| !goes(l)).collect();
        Part { labels, tensor: self.tensor.sum(&axes[..]) }
    }

    fn ordered(&self, labels: &[u32]) -> Result<Part, CallError> {
        let place = |label: &u32| self.labels.iter().position(|l| l == label).map(|a| a as isize);
        let order: Option<Vec<isize>> = labels.iter().map(place).collect();
        let order = order.ok_or_else(|| wrong("a label is missing"))?;
        Ok(Part { labels: labels.to_vec(), tensor: self.tensor.permute(&order) })
    }

    /// As `[batch, rows, terms]`, with these labels in each, broadcast where an extent is 1.
    fn grouped(&self, groups: [&[u32]; 3], extent: impl Fn(u32) -> usize) -> Result<Tensor, CallError> {
        let all = groups.concat();
        let ordered = self.ordered(&all)?.tensor;
        let dims: Vec<usize> = all.iter().map(|&l| extent(l)).collect();
        let product = |group: &[u32]| group.iter().map(|&l| extent(l)).fold(1, usize::saturating_mul);
        Ok(ordered.broadcast_to(Shape::new(&dims)?).reshape(groups.map(product)))
    }
}

fn twice(labels: &[u32]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|i| (i + 1..labels.len()).find(|&j| labels[i] == labels[j]).map(|j| (i, j)))
}

/// The product of two, summed over the labels that nothing else needs.
fn product(a: &Part, b: &Part, needed: &BTreeSet<u32>) -> Result<Part, CallError> {
    let alone = |one: &Part, other: &Part| {
        let goes = |l: u32| !needed.contains(&l) && !other.labels.contains(&l);
        Part { labels: one.labels.clone(), tensor: one.tensor.clone() }.summed(goes)
    };
    let (a, b) = (alone(a, b), alone(b, a));
    right(&a.tensor)?;
    right(&b.tensor)?;
    let both = |l: &&u32| b.labels.contains(l);
    let batch: Labels = a.labels.iter().filter(both).filter(|l| needed.contains(l)).copied().collect();
    let terms: Labels = a.labels.iter().filter(both).filter(|l| !needed.contains(l)).copied().collect();
    let rows: Labels = a.labels.iter().filter(|l| !both(l)).copied().collect();
    let columns: Labels = b.labels.iter().filter(|l| !a.labels.contains(l)).copied().collect();
    for &label in batch.iter().chain(&terms) {
        let (m, n) = (a.extent(label), b.extent(label));
        need(m == n || m == Some(1) || n == Some(1), "einsum", || format!("one label stands for {m:?} and {n:?}"))?;
    }
    let extent = |l: u32| {
        let (m, n) = (a.extent(l).unwrap_or(1), b.extent(l).unwrap_or(1));
        if m == 1 { n } else { m }
    };
    let rows_of = a.grouped([&batch, &rows, &terms], extent)?;
    let columns_of = b.grouped([&batch, &columns, &terms], extent)?;
    let labels: Labels = [&batch[..], &rows, &columns].concat();
    need(labels.len() <= MAX_RANK, "einsum", || format!("an intermediate result has rank {}", labels.len()))?;
    let dims: Vec<usize> = labels.iter().map(|&l| extent(l)).collect();
    Ok(Part { labels, tensor: rows_of.matmul(&columns_of.t()).reshape(Shape::new(&dims)?) })
}
