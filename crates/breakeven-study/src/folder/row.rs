//! One line of `samples.csv`: numbers and words without commas, so that a million of them are read without a parser of general CSV.

use std::fmt::Write;

use crate::{Flags, Sample};

/// The first line of the file.
pub const HEADER: &str = "cell,round,index,wall_ns,allocate_ns,upload_ns,dispatch_ns,kernel_ns,read_ns,wait_ns,flags";

/// Appends the line of `sample`, which belongs to the cell with the number `id`. What was not measured is left empty.
pub fn write(text: &mut String, id: u32, sample: &Sample) {
    let parts =
        [sample.allocate_ns, sample.upload_ns, sample.dispatch_ns, sample.kernel_ns, sample.read_ns, sample.wait_ns];
    write!(text, "{id},{},{},{}", sample.round, sample.index, sample.wall_ns).expect("a String takes everything");
    for part in parts {
        text.push(',');
        if let Some(part) = part {
            write!(text, "{part}").expect("a String takes everything");
        }
    }
    writeln!(text, ",{}", sample.flags).expect("a String takes everything");
}

/// The cell's number and the sample of a line, or what is wrong with it.
pub fn parse(line: &[u8]) -> Result<(u32, Sample), String> {
    let mut fields = line.split(|&byte| byte == b',');
    let mut next = || fields.next().ok_or("a column is missing");
    let sample = (
        needed(next()?)?,
        Sample {
            round: needed(next()?)?,
            index: needed(next()?)?,
            wall_ns: number(next()?)?.ok_or("wall_ns is missing")?,
            allocate_ns: number(next()?)?,
            upload_ns: number(next()?)?,
            dispatch_ns: number(next()?)?,
            kernel_ns: number(next()?)?,
            read_ns: number(next()?)?,
            wait_ns: number(next()?)?,
            flags: flags(next()?)?,
        },
    );
    if fields.next().is_some() { Err("more columns than the header names".into()) } else { Ok(sample) }
}

fn needed(field: &[u8]) -> Result<u32, String> {
    let value = number(field)?.ok_or("a number is missing")?;
    u32::try_from(value).map_err(|_| format!("{value} is too large"))
}

fn number(field: &[u8]) -> Result<Option<u64>, String> {
    if field.is_empty() {
        return Ok(None);
    }
    let wrong = || format!("'{}' is not a number", String::from_utf8_lossy(field));
    let digit = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    field.iter().try_fold(0, digit).map(Some).ok_or_else(wrong)
}

fn flags(field: &[u8]) -> Result<Flags, String> {
    let text = std::str::from_utf8(field).map_err(|_| "flags are not text")?;
    text.parse().map_err(|error: crate::StudyError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flag;

    fn line(text: &str) -> Result<(u32, Sample), String> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let flags = Flags::NONE.with(Flag::Throttled).with(Flag::BadClock);
        let whole = Sample { round: 3, index: 9, wall_ns: u64::MAX, kernel_ns: Some(0), flags, ..Sample::default() };
        for sample in [Sample::default(), whole] {
            let mut text = String::new();
            write(&mut text, 7, &sample);
            assert_eq!(line(text.trim_end()), Ok((7, sample)));
        }
    }

    #[test]
    fn the_header_names_each_column() {
        let mut text = String::new();
        write(&mut text, 0, &Sample::default());
        assert_eq!(text.matches(',').count(), HEADER.matches(',').count());
    }

    #[test]
    fn what_is_no_line_is_said() {
        for text in ["", "1,2", "1,2,3,,,,,,,,", "1,2,3,-4,,,,,,,", "1,2,3,4,,,,,,,hot", "1,2,3,4,,,,,,,,"] {
            assert!(line(text).is_err(), "{text}");
        }
        assert!(line("99999999999,2,3,4,,,,,,,").unwrap_err().contains("too large"));
        assert!(line("1,2,3,18446744073709551616,,,,,,,").unwrap_err().contains("not a number"));
    }
}
