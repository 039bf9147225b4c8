//! Text of the user's own: what marks it, and what a compiler says of it.

use breakeven_ir::Unsupported;
use naga::front::wgsl::parse_str;
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// First line of every module with text of the user's. Pipelines are found by their text, so what a text is trusted with is a
/// part of it.
pub const FOREIGN: &str = "// With code of the user's own: every access is checked.\n";

/// True where nobody vouches for the text.
pub fn is_foreign(text: &str) -> bool {
    text.starts_with(FOREIGN)
}

/// Compiles a module as far as that can be done without a device.
///
/// # Errors
/// What is wrong with it, and the line.
pub fn compile(text: &str) -> Result<(), Unsupported> {
    let wrong = |message: String, line: Option<u32>| {
        let line = line.and_then(|line| text.lines().nth(line as usize - 1)).map(str::trim);
        let place = line.map_or(String::new(), |line| format!(" in `{line}`"));
        Unsupported(format!("its WGSL does not compile: {message}{place}"))
    };
    let module = parse_str(text)
        .map_err(|error| wrong(error.message().to_owned(), error.location(text).map(|at| at.line_number)))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::empty());
    validator.validate(&module).map(drop).map_err(|error| {
        let line = error.location(text).map(|at| at.line_number);
        wrong(causes(error.as_inner()), line)
    })
}

/// An error and all that caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_in_one_line_that_shows_it() {
        let said = |text: &str| compile(text).unwrap_err().0;
        assert!(said("fn f() -> u32 {\n    return missing(1u);\n}\n").ends_with("in `return missing(1u);`"));
        let found = said("fn f() -> u32 {\n    return 1.5f;\n}\n");
        assert!(found.starts_with("its WGSL does not compile: ") && !found.contains('\n'), "{found}");
        assert_eq!(compile("fn f() -> u32 {\n    return 1u;\n}\n"), Ok(()));
    }
}
