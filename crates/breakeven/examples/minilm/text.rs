//! A text file as lines.

use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// The lines of the file that hold more than white space.
pub fn lines(path: &Path) -> Result<Vec<String>, Failure> {
    let problem = |what: String| Failure::Input(format!("{}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let at = error.valid_up_to();
        problem(format!("is not UTF-8: byte {at} (counted from 0) is {:#04x}; save it as UTF-8", bytes[at]))
    })?;
    let lines: Vec<String> = split(text).collect();
    if lines.is_empty() { Err(problem("holds no line of text".into())) } else { Ok(lines) }
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_the_byte_order_mark_are_left_out() {
        assert_eq!(split("\u{feff}one\r\n \n\ntwo").collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn a_file_that_is_not_text_is_named_with_the_place() {
        let path = std::env::temp_dir().join(format!("breakeven-text-{}", std::process::id()));
        let error = |bytes: &[u8]| {
            fs::write(&path, bytes).expect("writable");
            lines(&path).expect_err("not text").to_string()
        };
        assert!(error(b"ab\xff").contains("byte 2 (counted from 0) is 0xff"));
        assert!(error(b" \n").contains("no line of text"));
        fs::remove_file(&path).expect("it is there");
        assert!(lines(&path).expect_err("it is gone").to_string().contains("cannot be read"));
    }
}
