//! Two programs that take turns: what is slower is slower in many processes, and again in fresh ones.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use breakeven_bench::scan::duel::{Contestant, Duel, LONGEST, Pairs, duel};
use breakeven_bench::scan::preset::{Filter, Group, Preset, effort, groups};
use breakeven_bench::scan::simulated;
use breakeven_bench::scan::task::{Effort, Measure, Setting};
use breakeven_study::Cell;
use breakeven_study::verdict::{Blocks, Exit, Rule, Verdict, confirm, exit_of, judge};
use indicatif::ProgressBar;

use super::{Compare, Found};

/// Pairs of processes where nothing is said; a simulated clock has no noise, and a verdict wants twelve.
const PAIRS: usize = 40;
const SIMULATED_PAIRS: usize = 12;
/// Calls of a block, as many as end within so many milliseconds, and one at least: the first after another program's turn find cold
/// caches, and what five calls of a microsecond take says little. A simulated clock needs no more than the usual five.
const CALLS: u32 = 100;
const TURN_MS: u64 = 60;

/// Two programs that take turns at one task after another, and the line that says at which.
struct Match<'a> {
    sides: [&'a Contestant; 2],
    watch: &'a Watch<'a>,
}

/// Who waits for a comparison: what is shown, and whether somebody asked to stop.
pub(super) struct Watch<'a> {
    pub line: &'a ProgressBar,
    pub stopped: &'a dyn Fn() -> bool,
}

impl Match<'_> {
    fn duel(&self, task: &Measure, count: usize, rule: &Rule) -> anyhow::Result<BTreeMap<Cell, Duel>> {
        let size = task.sizes.first().expect("each task is of one size");
        let what = format!("{} {size} {}", task.operation, task.dtype);
        let tell = |done: usize| self.watch.line.set_message(format!("{what}: pair {}", done + 1));
        let is_known = |blocks: &Blocks| !matches!(judge(blocks, rule), Verdict::Ambiguous { .. });
        Ok(duel(
            self.sides,
            task,
            Pairs { count, least: rule.least_blocks, is_known: &is_known, stopped: self.watch.stopped, tell: &tell },
        )?)
    }
}

impl Compare {
    /// Programs in turns; what seems slower or faster is measured again in fresh processes before it is said.
    pub(super) fn of_programs(&self, sides: [&Contestant; 2], rule: &Rule, watch: &Watch<'_>) -> anyhow::Result<Found> {
        let (tasks, both) = (self.tasks()?, Match { sides, watch });
        watch.line.inc_length(tasks.len() as u64);
        let (mut verdicts, mut done) = (Vec::new(), 0);
        for task in &tasks {
            match self.of_task(&both, task, rule) {
                // What was broken off is not judged.
                Err(_) if (watch.stopped)() => break,
                found => verdicts.extend(found?),
            }
            watch.line.inc(1);
            done += 1;
        }
        let stopped = (done < tasks.len()).then(|| format!("stopped after {done} of {} comparisons", tasks.len()));
        let exit = exit_of(verdicts.iter().map(|(_, verdict)| verdict), rule.threshold);
        let exit = exit.and(if stopped.is_some() { Exit::Inconclusive } else { Exit::Ok });
        let notes = self.of_fewer(&verdicts).into_iter().chain(stopped).collect();
        Ok(Found { verdicts, notes, exit, is_confirmed: true })
    }

    /// What time did not suffice for.
    fn of_fewer(&self, verdicts: &[(Cell, Verdict)]) -> Option<String> {
        let pairs = verdicts.iter().filter_map(|(_, verdict)| Some(verdict.change()?.blocks));
        let fewer: Vec<usize> = pairs.filter(|pairs| *pairs < self.pairs()).collect();
        let least = fewer.iter().min()?;
        let rest = match fewer.len() {
            1 => format!("1 cell rests on {least} pairs of processes"),
            count => format!("{count} cells rest on {least} pairs of processes or more"),
        };
        Some(format!(
            "{rest}, and not on {}: more are begun for {} s at most for each size",
            self.pairs(),
            LONGEST.as_secs()
        ))
    }

    fn of_task(&self, both: &Match<'_>, task: &Measure, rule: &Rule) -> anyhow::Result<Vec<(Cell, Verdict)>> {
        let found = both.duel(task, self.pairs(), rule)?;
        let once_more = rule.once_more();
        let mut again = None;
        let mut verdicts = Vec::new();
        for (cell, duel) in found {
            let verdict = match verdict(&duel, rule) {
                first @ (Verdict::Slower(_) | Verdict::Faster(_)) => {
                    let again = again.get_or_insert_with(|| both.duel(task, self.pairs(), &once_more));
                    if again.is_err() && (both.watch.stopped)() {
                        bail!("stopped");
                    }
                    confirm(first, &seen_again(again, &cell, &once_more))
                }
                other => other,
            };
            verdicts.push((cell, verdict));
        }
        Ok(verdicts)
    }

    /// One task for each size, so that two processes wait for each other as shortly as they can.
    fn tasks(&self) -> anyhow::Result<Vec<Measure>> {
        let (operations, modes) = (self.only.clone(), self.mode.clone());
        let filter = Filter { operations, modes, ..Filter::default() };
        let mut groups = groups(Preset::Quick, &filter)?;
        let usual = Effort { rounds: 1, ..effort(&groups, Duration::ZERO) };
        let effort = if self.simulated {
            groups.iter_mut().for_each(simulated::keep_small);
            usual
        } else {
            Effort { block: CALLS, budget_ms: TURN_MS, ..usual }
        };
        let sizes = groups.iter().flat_map(|group| group.sizes.iter().map(move |size| (group, *size)));
        Ok(sizes.map(|(group, size)| self.task(group, size, effort)).collect())
    }

    fn pairs(&self) -> usize {
        self.pairs.map_or(if self.simulated { SIMULATED_PAIRS } else { PAIRS }, |pairs| pairs as usize)
    }

    fn task(&self, group: &Group, size: usize, effort: Effort) -> Measure {
        Measure {
            scalar: false,
            operation: group.operation.to_owned(),
            dtype: group.dtype.clone(),
            sizes: vec![size],
            devices: if self.simulated { vec![simulated::DEVICE.to_owned()] } else { self.device.clone() },
            modes: group.modes.clone(),
            without: Vec::new(),
            seed: 1,
            effort,
            setting: Setting { simulated: self.simulated, ..Setting::default() },
        }
    }
}

/// What fresh processes say of a cell; what was found before is not lost where they fail.
fn seen_again(again: &anyhow::Result<BTreeMap<Cell, Duel>>, cell: &Cell, rule: &Rule) -> Verdict {
    match again {
        Ok(found) => found.get(cell).map_or(Verdict::Missing, |duel| verdict(duel, rule)),
        Err(error) => Verdict::Invalid { why: error.to_string() },
    }
}

/// What one duel says of a cell.
fn verdict(duel: &Duel, rule: &Rule) -> Verdict {
    match &duel.wrong {
        Some(why) => Verdict::Invalid { why: why.clone() },
        None => judge(&duel.blocks, rule),
    }
}
