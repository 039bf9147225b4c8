//! Lists of tensors, and values that may be absent.

use breakeven::{Tensor, stack};

use super::shape::join;
use super::{Operator, WRITTEN_DOWN, axis, extents, many, one};
use crate::call::{Call, Result};
use crate::error::wrong;
use crate::value::Item;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("ConcatFromSequence", &["axis", "new_axis"], concat_from),
    many("Optional", &["type"], |c| {
        let item = if c.has(0) { Some(Box::new(plain(c.item(0)?)?)) } else { None };
        Ok(vec![Item::Optional(item)])
    }),
    many("OptionalGetElement", &[], |c| match c.item(0)? {
        Item::Optional(Some(item)) => Ok(vec![(**item).clone()]),
        Item::Optional(None) => wrong("the optional is empty"),
        item => Ok(vec![item.clone()]),
    }),
    one("OptionalHasElement", &[], |c| {
        let has = c.has(0) && !matches!(c.item(0)?, Item::Optional(None));
        Ok(c.known(vec![has], ()))
    }),
    many("SequenceAt", &[], |c| {
        let items = list(c)?;
        Ok(vec![items[place(c.one_int(1)?, items.len())?].clone()])
    }),
    many("SequenceConstruct", &[], |c| {
        let items = (0..c.count()).map(|i| element(c.item(i)?)).collect::<Result<_>>()?;
        Ok(vec![Item::Sequence(items)])
    }),
    many("SequenceEmpty", &["dtype"], |_| Ok(vec![Item::Sequence(Vec::new())])),
    many("SequenceErase", &[], |c| {
        let mut items = list(c)?.to_vec();
        let at = if c.has(1) { place(c.one_int(1)?, items.len())? } else { place(-1, items.len())? };
        items.remove(at);
        Ok(vec![Item::Sequence(items)])
    }),
    many("SequenceInsert", &[], |c| {
        let mut items = list(c)?.to_vec();
        let at = if c.has(2) { insertion(c.one_int(2)?, items.len())? } else { items.len() };
        items.insert(at, element(c.item(1)?)?);
        Ok(vec![Item::Sequence(items)])
    }),
    one("SequenceLength", &[], |c| Ok(c.known(vec![list(c)?.len() as i64], ()))),
    many("SequenceMap", &["body"], map),
    many("SplitToSequence", &["axis", "keepdims"], split_to),
];

/// What an optional may hold: no other optional, since optionals of optionals could grow without end.
fn plain(item: &Item) -> Result<Item> {
    if matches!(item, Item::Optional(_)) {
        wrong("takes a tensor or a sequence, not an optional")
    } else {
        Ok(item.clone())
    }
}

/// What a sequence may hold: a few nodes that make sequences of sequences could ask for any number of tensors.
fn element(item: &Item) -> Result<Item> {
    match item {
        Item::Tensor(_) | Item::Constant(_) => Ok(item.clone()),
        Item::Sequence(_) | Item::Optional(_) => wrong("takes tensors"),
    }
}

fn list<'c>(call: &'c Call<'_>) -> Result<&'c [Item]> {
    sequence(call.item(0)?)
}

fn sequence(item: &Item) -> Result<&[Item]> {
    match item {
        Item::Sequence(items) => Ok(items),
        Item::Optional(Some(item)) => sequence(item),
        _ => wrong("takes a sequence"),
    }
}

/// The place that `at` means among `count`, from the end when negative.
fn place(at: i64, count: usize) -> Result<usize> {
    let from_front = if at < 0 { at + count as i64 } else { at };
    let inside = usize::try_from(from_front).ok().filter(|&at| at < count);
    inside.map_or_else(|| wrong(format!("place {at} is not in a sequence of {count}")), Ok)
}

/// Where to insert: a negative place counts from the last element, not from the place behind it.
fn insertion(at: i64, count: usize) -> Result<usize> {
    if at == count as i64 { Ok(count) } else { place(at, count) }
}

fn concat_from(call: &Call<'_>) -> Result<Tensor> {
    let tensors = list(call)?.iter().map(|item| call.to_tensor(item)).collect::<Result<Vec<_>>>()?;
    let along = call.int("axis", 0)?;
    if !call.flag("new_axis", false)? {
        return join(&tensors, along);
    }
    let Some(first) = tensors.first() else { return wrong("takes at least one tensor") };
    let along = axis(along, first.check()?.shape.rank() + 1)?;
    Ok(stack(&tensors.iter().collect::<Vec<_>>(), along as isize))
}

/// The body once for each element; an input that is no sequence is the same each time.
fn map(call: &Call<'_>) -> Result<Vec<Item>> {
    let body = call.graph("body")?;
    let count = list(call)?.len();
    let mut outputs = vec![Vec::new(); body.outputs.len()];
    for at in 0..count {
        let one = |i: usize| match call.item(i)? {
            Item::Sequence(items) => items.get(at).cloned().map_or_else(|| wrong("its sequences differ in length"), Ok),
            item => Ok(item.clone()),
        };
        let given = (0..call.count()).map(one).collect::<Result<Vec<Item>>>()?;
        for (output, item) in outputs.iter_mut().zip(call.run_graph(&body, given)?) {
            output.push(element(&item)?);
        }
    }
    Ok(outputs.into_iter().map(Item::Sequence).collect())
}

fn split_to(call: &Call<'_>) -> Result<Vec<Item>> {
    let x = call.tensor(0)?;
    let along = axis(call.int("axis", 0)?, x.check()?.shape.rank())?;
    let extent = x.shape()[along];
    let alone = !call.has(1);
    let room = |count: usize| call.room(count, WRITTEN_DOWN);
    let parts = match call.optional_ints(1)? {
        None => room(extent).map(|()| vec![1; extent])?,
        Some(given) if call.spec(1)?.shape.rank() == 0 => {
            let Some(&part) = extents(&given)?.first().filter(|&&part| part > 0) else {
                return wrong("splits into parts of nothing");
            };
            room(extent.div_ceil(part))?;
            (0..extent.div_ceil(part)).map(|i| part.min(extent - i * part)).collect()
        }
        Some(given) => extents(&given)?,
    };
    if parts.iter().copied().fold(0, usize::saturating_add) != extent {
        return wrong(format!("{parts:?} does not make up an extent of {extent}"));
    }
    let keeps = !alone || call.flag("keepdims", true)?;
    let pieces = x.split(along as isize, &parts).into_iter();
    let pieces = pieces.map(|p| if keeps { p } else { p.squeeze(along as isize) });
    Ok(vec![Item::Sequence(pieces.map(Item::Tensor).collect())])
}
