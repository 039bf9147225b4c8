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
    /// For each size of an operation, whether any device measured it.
    measured: BTreeMap<(String, String, u64), bool>,
}

impl Outcome {
    /// Counts `cells`.
    pub fn of(cells: &[RecordedCell]) -> Outcome {
        let mut measured = BTreeMap::<_, bool>::new();
        let mut failed = 0;
        for RecordedCell { cell, facts, .. } in cells {
            let size = (cell.operation.clone(), cell.dtype.clone(), cell.elements);
            *measured.entry(size).or_default() |= !matches!(facts.status, Status::Unsupported | Status::Skipped);
            failed += usize::from(!matches!(facts.status, Status::Ok | Status::Unsupported | Status::Skipped));
        }
        Outcome { cells: cells.len(), failed, measured }
    }

    /// What was asked for and no device takes is not covered by what was measured.
    pub fn exit(&self) -> Exit {
        match self.failed {
            0 if self.nowhere() == 0 && self.cells > 0 => Exit::Ok,
            0 => Exit::CoverageLost,
            _ => Exit::Failed,
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

    fn exit(done: &[(&str, u64, Status)]) -> Exit {
        let row = |(device, elements, status): &(&str, u64, Status)| {
            let (operation, shape, dtype) = ("relu".to_owned(), elements.to_string(), "f32".to_owned());
            let device = (*device).to_owned();
            let cell = Cell { operation, elements: *elements, shape, dtype, device, mode: Mode::Host };
            RecordedCell { cell, facts: Facts::of(*status), samples: Vec::new() }
        };
        Outcome::of(&done.iter().map(row).collect::<Vec<_>>()).exit()
    }

    #[test]
    fn what_no_device_takes_is_not_covered_and_what_one_takes_is() {
        let (ok, refused) = (("cpu", 1000, Status::Ok), ("wgpu:0", 1000, Status::Unsupported));
        let skipped = ("cpu", 2000, Status::Skipped);
        assert_eq!(exit(&[ok, refused]), Exit::Ok);
        assert_eq!(exit(from_ref(&refused)), Exit::CoverageLost);
        assert_eq!(exit(&[ok, skipped]), Exit::CoverageLost);
        assert_eq!(exit(&[ok, skipped, ("cpu", 1000, Status::Wrong)]), Exit::Failed);
        assert_eq!(exit(&[]), Exit::CoverageLost);
    }
}
