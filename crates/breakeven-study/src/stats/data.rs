//! Signs that something else was timed than what was meant: nothing, too little, or data that decayed.

/// A call that is faster than this did nothing.
const LEAST_CALL_NS: f64 = 1.0;
/// No memory that we know moves an element in less.
const LEAST_ELEMENT_NS: f64 = 0.0005;
/// More of the output than this may not be denormal or not finite.
const DEGENERATE: f64 = 0.001;

/// The share of `values`, 0 to 1, that are denormal, infinite or no number; 1 if all are zero. A kernel may run many times slower on such
/// values, or be skipped. Single zeros are fine: `relu` makes them.
pub fn degenerate_share(values: &[f32]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let odd = values.iter().filter(|value| value.is_subnormal() || !value.is_finite()).count();
    let is_nothing = values.iter().all(|value| *value == 0.0);
    if is_nothing { 1.0 } else { odd as f64 / values.len() as f64 }
}

/// What a reader should know of a call on `elements` elements whose fastest sample took `min_ns`, with the share of degenerate values of its
/// output where that is known.
pub fn flags(elements: u64, min_ns: f64, degenerate: Option<f64>) -> Vec<String> {
    let mut flags = Vec::new();
    if min_ns < LEAST_CALL_NS {
        flags.push("below 1 ns an operation: was anything computed?".to_string());
    }
    if min_ns / (elements.max(1) as f64) < LEAST_ELEMENT_NS {
        flags.push("faster than any memory: was anything computed?".to_string());
    }
    if let Some(share) = degenerate.filter(|share| *share > DEGENERATE) {
        flags.push(format!("{:.1}% of the output is denormal, not finite, or all of it zero", share * 100.0));
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decayed_data_is_seen() {
        let halved = |times: i32| -> Vec<f32> { (1..100).map(|i| i as f32 * 0.5f32.powi(times)).collect() };
        assert_eq!(degenerate_share(&halved(10)), 0.0);
        assert!(degenerate_share(&halved(130)) > 0.05);
        assert_eq!(degenerate_share(&halved(200)), 1.0);
        assert_eq!(degenerate_share(&[0.0, 1.0, 0.0]), 0.0);
        assert_eq!(degenerate_share(&[f32::NAN, 1.0]), 0.5);
        assert!(flags(99, 100.0, Some(0.05))[0].starts_with("5.0% of the output"));
    }
}
