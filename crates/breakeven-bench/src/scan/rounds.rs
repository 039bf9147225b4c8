//! Rounds over all cells of an operation: each gives every cell that takes part a turn, in random order.
//!
//! What disturbs a machine lasts longer than a turn. So sizes share rounds, and it meets few rounds of many cells instead of all rounds of one. The least
//! that a size needs it gets by itself: what ends this process or loses a device then takes no size that was done before, where there is no time for more.

use std::time::Duration;

use super::Result;
use super::child::{Bench, Say};
use super::sentinel;
use super::subject::Subject;
use super::task::{Line, Measure};
use super::turn::Turn;

/// All cells of one size.
pub struct Cells<'a> {
    /// One for each place and mode.
    pub turns: Vec<Turn>,
    /// What they compute.
    pub subject: Subject<'a>,
    /// What their turns took so far.
    pub spent: Duration,
}

impl Cells<'_> {
    fn is_open(&self) -> bool {
        self.turns.iter().any(Turn::is_open)
    }

    /// One turn for each cell that still gets any.
    fn round(&mut self, bench: &Bench<'_>, task: &Measure, round: u32, order: &mut Order, say: Say<'_>) -> Result<()> {
        let begun = bench.clock.now();
        for i in order.of(self.turns.len()) {
            if self.turns[i].is_open() {
                say(Line::Begun { cell: self.turns[i].cell.clone() })?;
                self.turns[i].take(&mut self.subject, round, &task.effort, bench);
            }
        }
        self.spent += bench.clock.since(begun);
        if round + 1 >= task.effort.rounds {
            let is_late = self.spent >= Duration::from_millis(task.effort.budget_ms);
            self.turns.iter_mut().filter(|turn| turn.is_open()).for_each(|turn| turn.settle(is_late, task.seed));
        }
        Ok(())
    }

    /// Everything that was found.
    fn finish(self, say: Say<'_>) -> Result<()> {
        for turn in self.turns {
            let (cell, facts, samples) = turn.finish();
            say(Line::Done { cell, facts: Box::new(facts), samples })?;
        }
        Ok(())
    }
}

/// Rounds that go on.
pub struct Rounds {
    order: Order,
}

impl Rounds {
    /// None was taken yet.
    pub fn new(seed: u64) -> Rounds {
        Rounds { order: Order(seed | 1) }
    }

    /// The least rounds of one size; `None` if it is done by that and told.
    pub fn least<'a>(
        &mut self,
        bench: &Bench<'_>,
        task: &Measure,
        mut cells: Cells<'a>,
        say: Say<'_>,
    ) -> Result<Option<Cells<'a>>> {
        for round in 0..task.effort.rounds.max(1) {
            if !cells.is_open() {
                break;
            }
            self.round(bench, task, std::slice::from_mut(&mut cells), round, say)?;
        }
        if cells.is_open() {
            return Ok(Some(cells));
        }
        cells.finish(say)?;
        Ok(None)
    }

    /// More rounds until every cell is known well enough or the time of its size is up. A size is told as soon as nothing of it is open.
    pub fn rest(mut self, bench: &Bench<'_>, task: &Measure, mut sizes: Vec<Cells<'_>>, say: Say<'_>) -> Result<()> {
        for round in task.effort.rounds.max(1).. {
            if sizes.is_empty() {
                break;
            }
            self.round(bench, task, &mut sizes, round, say)?;
            let done: Vec<Cells<'_>> = sizes.extract_if(.., |cells| !cells.is_open()).collect();
            done.into_iter().try_for_each(|cells| cells.finish(say))?;
        }
        Ok(())
    }

    fn round(
        &mut self,
        bench: &Bench<'_>,
        task: &Measure,
        sizes: &mut [Cells<'_>],
        round: u32,
        say: Say<'_>,
    ) -> Result<()> {
        say(Line::Sentinel { round, wall_ns: sentinel::time(bench.clock) })?;
        for i in self.order.of(sizes.len()) {
            sizes[i].round(bench, task, round, &mut self.order, say)?;
        }
        Ok(())
    }
}

/// Random orders that follow from a seed.
struct Order(u64);

impl Order {
    /// The numbers below `count` in another order each time.
    fn of(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        crate::shuffle(&mut order, &mut self.0);
        order
    }
}
