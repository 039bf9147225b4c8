//! What the rows of a run mean together for whoever asked for it.

use std::collections::BTreeMap;

use breakeven_study::Status;
use breakeven_study::folder::RecordedCell;
use breakeven_study::verdict::Exit;

/// Rows of a run, counted.
pub struct Outcome {
    /// All that are finished.
    pub cells: usize,
    /// Those that went wrong. What a device does not offer is no failure.
    pub failed: usize,
    /// Those that there was no time for, which is no failure either.
    pub left_out: usize,
    /// For each size of an operation that was not left out, whether any device measured it.
    measured: BTreeMap<(String, String, u64), bool>,
}

impl Outcome {
    /// Counts `cells`.
    pub fn of(cells: &[RecordedCell]) -> Outcome {
        let mut measured = BTreeMap::<_, bool>::new();
        let (mut failed, mut left_out) = (0, 0);
        for RecordedCell { cell, facts, .. } in cells {
            if facts.is_left_out() {
                left_out += 1;
                continue;
            }
            let size = (cell.operation.clone(), cell.dtype.clone(), cell.elements);
            *measured.entry(size).or_default() |= !matches!(facts.status, Status::Unsupported | Status::Skipped);
            failed += usize::from(!matches!(facts.status, Status::Ok | Status::Unsupported | Status::Skipped));
        }
        Outcome { cells: cells.len(), failed, left_out, measured }
    }

    /// What was asked for and no device takes is not covered by what was measured; nor is anything where there was no time for any of it.
    pub fn exit(&self) -> Exit {
        match self.failed {
            0 if self.nowhere() == 0 && self.cells > self.left_out => Exit::Ok,
            0 => Exit::CoverageLost,
            _ => Exit::Failed,
        }
    }

    /// For a reader of the terminal.
    pub fn say(&self, incomplete: usize, is_stopped: bool) {
        let Outcome { cells, failed, left_out, .. } = self;
        println!("{cells} cells, {failed} of them failed; {incomplete} operations are incomplete");
        if *cells == 0 && !is_stopped {
            println!(
                "nothing was measured: the devices that are asked for have none of the ways of calling that are asked for"
            );
        }
        if *left_out > 0 {
            println!(
                "{left_out} cells were left out, since a call of theirs takes too long for the time of the study: their rows say what would measure them"
            );
        }
        let nowhere = self.nowhere();
        if nowhere > 0 {
            println!("{nowhere} sizes of operations could be measured nowhere: their rows say why");
        }
    }

    /// Sizes that every device refused, or that were not tried on any.
    pub fn nowhere(&self) -> usize {
        self.measured.values().filter(|is_measured| !**is_measured).count()
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use breakeven_study::folder::Facts;
    use breakeven_study::{Cell, Mode};

    use super::*;

    fn row(device: &str, elements: u64, facts: Facts) -> RecordedCell {
        let (operation, shape, dtype) = ("relu".to_owned(), elements.to_string(), "f32".to_owned());
        let cell = Cell { operation, elements, shape, dtype, device: device.to_owned(), mode: Mode::Host };
        RecordedCell { cell, facts, samples: Vec::new() }
    }

    fn exit(done: &[(&str, u64, Status)]) -> Exit {
        let row = |(device, elements, status): &(&str, u64, Status)| row(device, *elements, Facts::of(*status));
        Outcome::of(&done.iter().map(row).collect::<Vec<_>>()).exit()
    }

    #[test]
    fn what_there_was_no_time_for_is_counted_and_no_loss() {
        let outcome =
            Outcome::of(&[row("cpu", 1000, Facts::of(Status::Ok)), row("cpu", 2000, Facts::left_out("no time"))]);
        assert_eq!((outcome.left_out, outcome.nowhere(), outcome.exit()), (1, 0, Exit::Ok));
        let nothing = Outcome::of(&[row("cpu", 2000, Facts::left_out("no time"))]);
        assert_eq!((nothing.left_out, nothing.failed, nothing.exit()), (1, 0, Exit::CoverageLost));
    }

    #[test]
    fn what_no_device_takes_is_not_covered_and_what_one_takes_is() {
        let (ok, refused) = (("cpu", 1000, Status::Ok), ("wgpu:0", 1000, Status::Unsupported));
        let skipped = ("cpu", 2000, Status::Skipped);
        assert_eq!(exit(&[ok, refused]), Exit::Ok);
        assert_eq!(exit(from_ref(&refused)), Exit::CoverageLost);
        assert_eq!(exit(&[ok, skipped]), Exit::CoverageLost);
        for failed in [Status::Wrong, Status::Lost, Status::Timeout, Status::Crash] {
            assert_eq!(exit(&[ok, skipped, ("wgpu:0", 1000, failed)]), Exit::Failed, "{failed}");
        }
        assert_eq!(exit(&[]), Exit::CoverageLost);
    }
}
