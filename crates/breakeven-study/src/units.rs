//! Numbers with their units, read and written: a time that is not marked as milliseconds is not read as one.

use crate::StudyError;
use crate::breakeven::grouped;

/// Reads a time as reports print it, "31.95 ms", into nanoseconds.
pub fn parse_time_ns(text: &str) -> Result<f64, StudyError> {
    let unknown =
        || StudyError::Word { text: text.into(), what: "time", known: "a number and one of ns, us, µs, ms, s" };
    let digits = text.trim().find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(unknown)?;
    let (number, unit) = text.trim().split_at(digits);
    let factor = match unit.trim() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(unknown()),
    };
    Ok(number.parse::<f64>().map_err(|_| unknown())? * factor)
}

/// "31.95 ms" for 31,950,000 nanoseconds: four digits, and a unit that fits.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{} ns", digits(ns)),
        ns if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// "609,035x", "16.9x", "0.13x".
pub fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 100.0 => format!("{}x", grouped(ratio.round() as u64)),
        ratio if ratio >= 10.0 => format!("{ratio:.1}x"),
        ratio if ratio >= 0.01 => format!("{ratio:.2}x"),
        ratio => format!("{ratio:.6}x"),
    }
}

/// "0.24 GMAC/s" for 241,500,000 of "MAC" a second.
pub fn rate(per_second: f64, of: &str) -> String {
    let (scaled, prefix) = match per_second {
        rate if rate >= 1e12 => (rate / 1e12, "T"),
        rate if rate >= 1e8 => (rate / 1e9, "G"),
        rate if rate >= 1e6 => (rate / 1e6, "M"),
        rate => (rate / 1e3, "k"),
    };
    format!("{scaled:.2} {prefix}{of}/s")
}

/// "1.6 MB": powers of 1,000.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{bytes} B"),
        bytes if bytes < 1e6 => format!("{} kB", digits(bytes / 1e3)),
        bytes if bytes < 1e9 => format!("{} MB", digits(bytes / 1e6)),
        bytes => format!("{} GB", digits(bytes / 1e9)),
    }
}

/// Four digits, without zeros at the end that say nothing.
fn digits(number: f64) -> String {
    let places = match number {
        number if number < 10.0 => 3,
        number if number < 100.0 => 2,
        _ => 1,
    };
    let text = format!("{number:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_unit_and_not_without() {
        for (text, ns) in
            [("52.46 ns", 52.46), ("9.99 µs", 9990.0), ("31.95 ms", 31.95e6), ("2s", 2e9), ("3.18us", 3180.0)]
        {
            assert_eq!(parse_time_ns(text).expect(text), ns);
        }
        for text in ["52.46", "ns", "1,000 ns", "3 min", "-1 ms", ""] {
            assert!(parse_time_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_written_with_a_unit_that_fits() {
        assert_eq!([time(52.46), time(31.95e6), time(9990.0), time(2e9)], ["52.46 ns", "31.95 ms", "9.99 µs", "2 s"]);
        assert_eq!([ratio(609_035.5), ratio(16.86), ratio(0.1282)], ["609,036x", "16.9x", "0.13x"]);
        assert_eq!(
            [rate(241.5e6, "MAC"), rate(1.5e12, "FLOP"), rate(3e5, "elem")],
            ["0.24 GMAC/s", "1.50 TFLOP/s", "300.00 kelem/s"]
        );
    }
}
