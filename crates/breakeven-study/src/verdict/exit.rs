//! What a comparison means for a program that asked for it.

use super::Verdict;

/// The exit codes of every command, from the one that outweighs all others to the one that says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Nothing is slower by more than the threshold.
    Ok = 0,
    /// Nothing was shown, in either direction.
    Inconclusive = 3,
    /// Something that was measured before is not any more.
    CoverageLost = 4,
    /// The check failed: something is slower, or went wrong, or ran where it must not.
    Failed = 1,
    /// The two were measured on different machines.
    Mismatch = 5,
    /// The call was wrong.
    Usage = 2,
}

impl Exit {
    /// The number for the operating system.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// How much it weighs against others.
    fn weight(self) -> usize {
        let order = [Exit::Ok, Exit::Inconclusive, Exit::CoverageLost, Exit::Failed, Exit::Mismatch, Exit::Usage];
        order.iter().position(|exit| *exit == self).expect("each is listed")
    }

    /// The weightier of two.
    pub fn and(self, other: Exit) -> Exit {
        if other.weight() > self.weight() { other } else { self }
    }
}

/// What `verdicts` mean together, with changes above `threshold` being those that matter.
///
/// An AMBIGUOUS cell whose interval shows that it is not slower by more than that does no harm.
pub fn exit_of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>, threshold: f64) -> Exit {
    let one = |verdict: &Verdict| match verdict {
        Verdict::Slower(_) | Verdict::Invalid { .. } => Exit::Failed,
        Verdict::Missing => Exit::CoverageLost,
        Verdict::Ambiguous { change: Some(change), .. } if change.high < 1.0 + threshold => Exit::Ok,
        Verdict::Ambiguous { .. } => Exit::Inconclusive,
        Verdict::Faster(_) | Verdict::Same(_) => Exit::Ok,
    };
    verdicts.into_iter().map(one).fold(Exit::Ok, Exit::and)
}

#[cfg(test)]
mod tests {
    use super::super::Change;
    use super::*;

    fn change(low: f64, high: f64) -> Change {
        Change { ratio: f64::midpoint(low, high), low, high, blocks: 40 }
    }

    fn ambiguous(low: f64, high: f64) -> Verdict {
        Verdict::Ambiguous { change: Some(change(low, high)), why: String::new() }
    }

    #[test]
    fn the_weightiest_verdict_decides() {
        let check = |verdicts: &[Verdict], code| assert_eq!(exit_of(verdicts, 0.03).code(), code, "{verdicts:?}");
        let same = Verdict::Same(change(0.99, 1.01));
        let slower = Verdict::Slower(change(1.04, 1.06));
        check(&[], 0);
        check(&[same.clone(), Verdict::Faster(change(0.8, 0.9)), ambiguous(0.9, 1.02)], 0);
        check(&[same.clone(), ambiguous(0.99, 1.05)], 3);
        check(&[Verdict::Missing, ambiguous(0.99, 1.05)], 4);
        check(&[Verdict::Missing, slower, same], 1);
        check(&[Verdict::Invalid { why: "crash in B".into() }], 1);
        assert_eq!(Exit::Failed.and(Exit::Mismatch).code(), 5);
    }
}
