//! Launches that one dispatch carries out: they differ in data alone, and none of them sees what another writes. Between
//! dispatches that write one buffer a GPU waits, which takes longer than a small launch itself.

use breakeven_device::{Touch, are_independent, touches};
use breakeven_ir::{Kernel, Launch, Map, Unsupported};

use super::map::{self, Member};
use super::{Plan, Shaping, body_of, check_operands, plan};
use crate::wgsl::{Bound, member_bytes, place};

/// Dispatches of one launch or of several.
#[derive(Debug)]
pub struct Planned {
    /// What is dispatched.
    pub plan: Plan,
    /// The slot that stands for scratch memory.
    pub workspace: Option<usize>,
    /// Which of the launches it carries out.
    pub launches: Vec<usize>,
}

/// Compiles launches that nothing comes between. One that depends on none of those since may be carried out earlier.
pub fn plan_all(launches: &[&Launch], shaping: &Shaping) -> Result<Vec<Planned>, Unsupported> {
    let mut sets: Vec<Set<'_>> = Vec::new();
    for (at, launch) in launches.iter().enumerate() {
        let part = Part::new(at, launch, shaping)?;
        match home(&sets, &part, shaping) {
            Some(set) => sets[set].add(part),
            None => sets.push(Set::new(launch, part, shaping)?),
        }
    }
    sets.into_iter().map(Set::finish).collect()
}

/// Sets that a launch is compared with, the latest first, so that long segments are compiled in linear time.
const LOOK_BACK: usize = 16;

/// The last set that takes `part`, if `part` is independent of all sets after it.
fn home(sets: &[Set<'_>], part: &Part<'_>, shaping: &Shaping) -> Option<usize> {
    let mut free = sets.iter().enumerate().rev().take(LOOK_BACK).take_while(|(_, set)| set.is_apart(part));
    free.find(|(_, set)| set.takes(part, shaping)).map(|(i, _)| i)
}

/// A launch, and its map if it is one.
struct Part<'a> {
    at: usize,
    map: Option<(&'a Map, Member<'a>)>,
    touches: Vec<Touch>,
}

/// Launches that share a dispatch so far.
struct Set<'a> {
    parts: Vec<Part<'a>>,
    bound: Vec<Bound>,
    /// Members for whose arguments there is room.
    most: usize,
    /// The first launch alone.
    alone: Planned,
}

impl<'a> Part<'a> {
    fn new(at: usize, launch: &'a Launch, shaping: &Shaping) -> Result<Part<'a>, Unsupported> {
        check_operands(&launch.kernel, shaping)?;
        let map = match &launch.kernel {
            Kernel::Map(map) if !map.out.layout.shape.is_empty() => {
                Some((map, map::member(map, &launch.inputs, launch.outputs[0])))
            }
            _ => None,
        };
        Ok(Part { at, map, touches: touches(launch) })
    }
}

impl<'a> Set<'a> {
    fn new(launch: &Launch, part: Part<'a>, shaping: &Shaping) -> Result<Set<'a>, Unsupported> {
        let alone = Planned { plan: plan(launch, shaping)?, workspace: launch.workspace, launches: vec![part.at] };
        let words = alone.plan.dispatches.first().map_or(0, |d| d.args.len());
        let most = (shaping.args_bytes / member_bytes(words).max(1)).min(shaping.row_groups) as usize;
        let mut set = Set { parts: Vec::new(), bound: Vec::new(), most, alone };
        set.add(part);
        Ok(set)
    }

    fn is_apart(&self, part: &Part<'_>) -> bool {
        self.parts.iter().all(|other| are_independent(&other.touches, &part.touches))
    }

    /// Whether `part`, which is apart from it, can share the dispatch. Every member has as many groups as the largest, so
    /// all are about as large, and less than half of the groups idle. A launch that fills more than a row of the grid has
    /// nothing to gain.
    fn takes(&self, part: &Part<'_>, shaping: &Shaping) -> bool {
        let (Some((map, member)), Some((own, first))) = (&part.map, &self.parts[0].map) else { return false };
        own.expr == map.expr
            && first.form == member.form
            && self.parts.len() < self.most
            && first.groups().next_power_of_two() == member.groups().next_power_of_two()
            && first.groups().max(member.groups()) <= shaping.row_groups
            && self.has_room(member, shaping)
    }

    fn has_room(&self, member: &Member<'_>, shaping: &Shaping) -> bool {
        let mut bound = self.bound.clone();
        place(&mut bound, &member.wants());
        bound.len() <= shaping.bindings && bound.iter().all(|b| b.range.end - b.range.start <= shaping.binding_bytes)
    }

    fn add(&mut self, part: Part<'a>) {
        if let Some((_, member)) = &part.map {
            place(&mut self.bound, &member.wants());
        }
        self.parts.push(part);
    }

    fn finish(self) -> Result<Planned, Unsupported> {
        if self.parts.len() < 2 {
            return Ok(self.alone);
        }
        let launches = self.parts.iter().map(|part| part.at).collect();
        let maps: Vec<_> = self.parts.into_iter().filter_map(|part| part.map).collect();
        let body = body_of(&maps[0].0.expr)?;
        let members: Vec<Member<'_>> = maps.into_iter().map(|(_, member)| member).collect();
        let dispatches = vec![map::dispatch(&body, &members, self.alone.plan.is_terse)];
        Ok(Planned { plan: Plan { dispatches, ..Plan::default() }, workspace: None, launches })
    }
}
