//! The exemptions from the checks, each with its reason; one that no longer exempts anything is itself a finding.

use super::Finding;

/// Findings of `check` in `file` (and, if not empty, whose message has `about`) that are accepted.
pub struct Exempt {
    pub check: &'static str,
    pub file: &'static str,
    pub about: &'static str,
    pub reason: &'static str,
}

/// Every accepted finding of this repository.
pub const EXEMPT: &[Exempt] = &[
    Exempt {
        check: "one-row",
        file: "crates/breakeven-conformance/src/cases/floats.rs",
        about: "'mish'",
        reason: "case F02 names the operations that its reporters met, with values of their own",
    },
    Exempt {
        check: "one-row",
        file: "crates/breakeven-onnx/src/ops/activation.rs",
        about: "",
        reason: "operators of ONNX have names and attributes of their own, beside the row that computes them",
    },
    Exempt {
        check: "globals",
        file: "fuzz/src/operators.rs",
        about: "",
        reason: "a fuzz target is a function of bytes alone, and the tables of operators are read once",
    },
    Exempt {
        check: "globals",
        file: "fuzz/src/read.rs",
        about: "",
        reason: "a fuzz target is a function of bytes alone, and making an engine takes longer than reading most files",
    },
];

/// `findings` of the check `name` without the exempted ones, and one for each exemption that met nothing or has no reason.
pub fn apply(name: &str, findings: Vec<Finding>, exempt: &[Exempt]) -> Vec<Finding> {
    let meets = |e: &Exempt, finding: &Finding| finding.file == e.file && finding.message.contains(e.about);
    let mine: Vec<&Exempt> = exempt.iter().filter(|e| e.check == name).collect();
    let bad = |e: &&Exempt| e.reason.trim().is_empty() || !findings.iter().any(|finding| meets(e, finding));
    let stale: Vec<Finding> = mine.iter().copied().filter(|e| bad(e)).map(stale).collect();
    let kept = findings.into_iter().filter(|finding| !mine.iter().any(|e| meets(e, finding)));
    kept.chain(stale).collect()
}

fn stale(e: &Exempt) -> Finding {
    Finding::new(
        e.file,
        1,
        format!("the exemption from '{}' is without reason or use: remove it from exempt.rs", e.check),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Exempt = Exempt { check: "length", file: "a.rs", about: "lines", reason: "a table of values" };

    #[test]
    fn accepts_what_it_names_and_nothing_else() {
        let found = vec![Finding::new("a.rs", 1, "500 lines"), Finding::new("b.rs", 1, "500 lines")];
        assert_eq!(apply("length", found.clone(), &[TABLE]), [Finding::new("b.rs", 1, "500 lines")]);
        assert_eq!(apply("words", found.clone(), &[TABLE]), found);
    }

    #[test]
    fn a_useless_or_unreasoned_exemption_is_found() {
        assert_eq!(apply("length", vec![], &[TABLE]).len(), 1);
        let unreasoned = Exempt { reason: " ", ..TABLE };
        assert_eq!(apply("length", vec![Finding::new("a.rs", 1, "500 lines")], &[unreasoned]).len(), 1);
    }
}
