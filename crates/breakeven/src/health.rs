//! How well devices do: judged from how they stand, what they did within the last minute, and how much of their own memory is left.

use std::mem::{Discriminant, discriminant};

use breakeven_device::Memory;

use crate::DeviceState;
use crate::record::Signs;

/// How well a device does. Work goes on in any case: what a device cannot do goes to the others.
///
/// Memory is judged by the device's own budget ([`Memory::budget`]), which is what its driver grants this process at the moment, or what a
/// card has: there is a warning from the moment that less than a fifth of it is left, counting as left what waits in the device's
/// pool, and it is critical below a twentieth. Where no budget is known, memory that ran out is what tells. How often a device may be lost
/// or refuse work within a minute before it is left alone is what [`DeviceState::Quarantined`] goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Nothing is amiss.
    Healthy,
    /// It is used, and one more such event may end that; what is amiss, in words.
    Warning(String),
    /// Nothing is placed on it, or hardly anything would fit; why, in words.
    Critical(String),
}

impl Health {
    /// `healthy`, `warning` or `critical`.
    pub fn name(&self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Warning(_) => "warning",
            Health::Critical(_) => "critical",
        }
    }

    /// What is amiss, in words; `None` where nothing is.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Health::Healthy => None,
            Health::Warning(why) | Health::Critical(why) => Some(why),
        }
    }
}

/// There is a warning where less than this part of the budget is left, one in so many.
const WARNS_BELOW: u64 = 5;
/// And it is critical below this.
const CRITICAL_BELOW: u64 = 20;

/// What a device is judged by.
pub(crate) struct Facts<'a> {
    pub state: &'a DeviceState,
    /// Where it is open.
    pub memory: Option<Memory>,
    /// What its record says of the last minute.
    pub signs: Signs,
}

/// How well a device does; `None` where it was found and never used.
pub(crate) fn judge(facts: &Facts<'_>) -> Option<Health> {
    match facts.state {
        DeviceState::Unusable(_) => None,
        DeviceState::Ready => Some(judge_ready(facts)),
        DeviceState::Suspect(why) => {
            Some(Health::Critical(format!("a wait on it ran out, and it has not answered since: {why}")))
        }
        DeviceState::Reopening(why) => Some(Health::Critical(format!("it is being opened again: {why}"))),
        DeviceState::Lost(why) => Some(Health::Critical(format!("it is gone: {why}"))),
        DeviceState::Quarantined(why) => Some(Health::Critical(format!("it is left alone: {why}"))),
    }
}

fn judge_ready(facts: &Facts<'_>) -> Health {
    let short = facts.memory.and_then(short_of_memory);
    let is_critical = short.as_ref().is_some_and(|short| short.is_critical);
    let all: Vec<String> = short.into_iter().map(|short| short.why).chain(concerns(&facts.signs)).collect();
    match all.is_empty() {
        true => Health::Healthy,
        false if is_critical => Health::Critical(all.join("; ")),
        false => Health::Warning(all.join("; ")),
    }
}

/// There is little memory left.
struct Short {
    is_critical: bool,
    why: String,
}

fn short_of_memory(memory: Memory) -> Option<Short> {
    let (budget, left) = (memory.budget?, memory.left_bytes()?);
    let below = |part| left < budget.div_ceil(part);
    let part = if below(CRITICAL_BELOW) { "twentieth" } else { "fifth" };
    below(WARNS_BELOW).then(|| Short {
        is_critical: below(CRITICAL_BELOW),
        why: format!("less than a {part} of its memory is left: {left} of {budget} bytes"),
    })
}

fn concerns(signs: &Signs) -> impl Iterator<Item = String> {
    let Signs { ran_short, is_last_opening, is_last_refusal, banned } = *signs;
    let ran_out = ran_short.then(|| "its memory ran out within the last minute".to_owned());
    let opened = is_last_opening.then(|| {
        "it was opened again as often as may be within a minute: at the next loss it is left alone".to_owned()
    });
    let refused = is_last_refusal
        .then(|| "it refused work as often as may be within a minute: at the next time it is left alone".to_owned());
    let banned = (banned > 0).then(|| format!("kernels that lost it twice are not run there: {banned}"));
    [ran_out, opened, refused, banned].into_iter().flatten()
}

/// What subscribers are told the changes of: how well a device does, and how it stands. Reasons have numbers in them, which change at each call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    health: Option<Discriminant<Health>>,
    state: Discriminant<DeviceState>,
    /// Its memory, and what is left of it.
    memory: Option<Memory>,
}

/// Memory that was short is told to be there again once there is so much more than the limit: work that comes and goes near it would
/// be told of at each call.
const COMES_BACK_AT: f64 = 1.25;

impl Standing {
    pub fn of(health: Option<&Health>, state: &DeviceState, memory: Option<Memory>) -> Standing {
        Standing { health: health.map(discriminant), state: discriminant(state), memory }
    }

    /// Whether this is another one than `told`, and not that memory comes back by little.
    pub fn is_news_after(&self, told: &Standing) -> bool {
        let is_other = (self.health, self.state) != (told.health, told.state);
        is_other && !(self.state == told.state && self.is_hardly_better(told))
    }

    fn is_hardly_better(&self, told: &Standing) -> bool {
        let shortage = |standing: &Standing| standing.memory.and_then(short_of_memory).map(|short| short.is_critical);
        let limit = match (shortage(told), shortage(self)) {
            (Some(true), Some(false) | None) => CRITICAL_BELOW,
            (Some(false), None) => WARNS_BELOW,
            _ => return false,
        };
        let left = |memory: Memory| Some(memory.left_bytes()? as f64 * limit as f64 / memory.budget? as f64);
        self.memory.and_then(left).is_some_and(|times| times < COMES_BACK_AT)
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::PoolCounters;

    use super::*;

    fn check(facts: &Facts<'_>, name: &str, says: &str) {
        let health = judge(facts).expect("it is used");
        assert_eq!(health.name(), name, "{health:?}");
        assert!(health.reason().unwrap_or_default().contains(says), "{health:?} does not say '{says}'");
        assert_eq!(health.reason().is_none(), name == "healthy");
    }

    fn ready(memory: Memory, signs: Signs) -> Facts<'static> {
        Facts { state: &DeviceState::Ready, memory: Some(memory), signs }
    }

    /// A budget, and what is live and waiting of it.
    fn memory(budget: Option<u64>, live_bytes: u64, pooled_bytes: u64) -> Memory {
        Memory {
            pool: PoolCounters { live_bytes, pooled_bytes, ..PoolCounters::default() },
            budget,
            ..Memory::default()
        }
    }

    #[test]
    fn memory_is_judged_by_parts_of_the_budget_whatever_that_is() {
        for scale in [1, 1 << 20, 1 << 30, 1 << 50] {
            let check = |budget: u64, live: u64, pooled: u64, name, says| {
                let memory = memory(Some(budget * scale), live * scale, pooled * scale);
                check(&ready(memory, Signs::default()), name, says);
            };
            check(100, 0, 0, "healthy", "");
            check(100, 80, 0, "healthy", "");
            check(100, 81, 0, "warning", "a fifth of its memory is left");
            check(100, 95, 0, "warning", "a fifth");
            check(100, 96, 0, "critical", "a twentieth");
            check(100, 300, 0, "critical", "0 of");
            check(100, 10, 90, "healthy", "");
        }
    }

    #[test]
    fn without_a_budget_memory_says_nothing_until_it_runs_out() {
        for budget in [None, Some(0)] {
            check(&ready(memory(budget, 1 << 40, 0), Signs::default()), "healthy", "");
            let signs = Signs { ran_short: true, ..Signs::default() };
            check(&ready(memory(budget, 0, 0), signs), "warning", "ran out within the last minute");
        }
    }

    #[test]
    fn what_a_driver_tells_counts_and_not_our_books_alone() {
        let full = Memory { used: Some(97), ..memory(Some(100), 1, 0) };
        check(&ready(full, Signs::default()), "critical", "3 of 100 bytes");
    }

    #[test]
    fn what_may_not_happen_once_more_is_a_warning() {
        let none = Signs::default();
        let check = |signs, says| check(&ready(memory(None, 0, 0), signs), "warning", says);
        check(Signs { ran_short: true, ..none }, "ran out");
        check(Signs { is_last_opening: true, ..none }, "at the next loss");
        check(Signs { is_last_refusal: true, ..none }, "at the next time");
        check(Signs { banned: 1, ..none }, "not run there: 1");
        check(Signs { ran_short: true, banned: 3, ..none }, "the last minute; kernels");
    }

    #[test]
    fn a_device_that_is_not_used_is_critical_and_one_that_never_was_is_not_judged() {
        let why = || "the reason".to_owned();
        let facts = |state| Facts { state, memory: None, signs: Signs::default() };
        let states = [
            DeviceState::Suspect(why()),
            DeviceState::Reopening(why()),
            DeviceState::Lost(why()),
            DeviceState::Quarantined(why()),
        ];
        for state in &states {
            check(&facts(state), "critical", "the reason");
        }
        assert_eq!(judge(&facts(&DeviceState::Unusable(why()))), None);
    }

    #[test]
    fn a_change_is_one_of_kind_and_not_of_numbers() {
        let warning = |why: &str| Standing::of(Some(&Health::Warning(why.to_owned())), &DeviceState::Ready, None);
        assert!(!warning("19 of 100 bytes").is_news_after(&warning("18 of 100 bytes")));
        let critical = |state: DeviceState| Standing::of(Some(&Health::Critical(String::new())), &state, None);
        assert!(critical(DeviceState::Lost(String::new())).is_news_after(&critical(DeviceState::Ready)));
        assert!(warning("").is_news_after(&Standing::of(None, &DeviceState::Ready, None)));
    }

    /// Down at once, up again by a quarter more than the limit.
    #[test]
    fn memory_near_a_limit_is_told_of_once() {
        let standing = |left: u64| {
            let memory = memory(Some(1000), 1000 - left, 0);
            let health = judge(&ready(memory, Signs::default()));
            Standing::of(health.as_ref(), &DeviceState::Ready, Some(memory))
        };
        let check = |told: u64, now: u64, is_news| {
            assert_eq!(standing(now).is_news_after(&standing(told)), is_news, "{told}, then {now}");
        };
        check(300, 199, true);
        check(199, 210, false);
        check(199, 249, false);
        check(199, 250, true);
        check(199, 49, true);
        check(49, 55, false);
        check(49, 62, false);
        check(49, 63, true);
        check(49, 300, true);
    }
}
