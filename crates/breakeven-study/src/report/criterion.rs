//! Files as criterion writes them, so that tools for these (critcmp and others) can read our rows.
//!
//! What these tools read is `benchmark.json` and `estimates.json` below `target/criterion/GROUP/FUNCTION/VALUE/new`. Criterion does not promise
//! that format (<https://bheisler.github.io/criterion.rs/book/cargo_criterion/external_tools.html> names another for programs); it has been this
//! one since version 0.3. The slope is null: we time each call by itself, as criterion's flat sampling does.

use serde_json::{Value, json};

use crate::folder::Recorded;
use crate::stats::{Interval, Kept, Random};
use crate::{Cell, Status};

/// How many times samples are drawn anew.
const DRAWS: usize = 500;
/// More samples than this are thinned: estimates of means take a pass over all of them for each draw.
const MOST: usize = 2000;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriterionFile {
    /// Where it lies below `target/criterion`, with "/" between folders.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The files of every cell of a run that has a time, from the samples that our own rows are made of.
pub fn of_run(recorded: &Recorded) -> Vec<CriterionFile> {
    let seed = recorded.manifest.seed;
    let timed = recorded.cells.iter().filter(|cell| cell.facts.status == Status::Ok);
    timed.flat_map(|cell| files(&cell.cell, &Kept::of(&cell.samples).settled().wall_ns(), seed)).collect()
}

/// The files of a cell whose calls took `wall_ns`; none if that is empty.
pub fn files(cell: &Cell, wall_ns: &[f64], seed: u64) -> Vec<CriterionFile> {
    let Some(estimates) = estimates(wall_ns, seed) else { return Vec::new() };
    let function = format!("{} {}", cell.device, cell.mode);
    let group = format!("{} {}", cell.operation, cell.dtype);
    let folder = [&group, &function, &cell.shape].map(|name| folder_name(name)).join("/");
    let benchmark = json!({
        "group_id": group,
        "function_id": function,
        "value_str": cell.shape,
        "throughput": {"Elements": cell.elements},
        "full_id": format!("{group}/{function}/{}", cell.shape),
        "directory_name": folder,
        "title": format!("{group}/{function}/{}", cell.shape),
    });
    let file =
        |name: &str, value: &Value| CriterionFile { path: format!("{folder}/new/{name}"), text: value.to_string() };
    vec![file("benchmark.json", &benchmark), file("estimates.json", &estimates)]
}

/// Criterion replaces these characters in folders' names.
fn folder_name(name: &str) -> String {
    name.chars().map(|c| if "?\"/\\*<>:|^".contains(c) { '_' } else { c }).collect()
}

/// `estimates.json`.
fn estimates(wall_ns: &[f64], seed: u64) -> Option<Value> {
    let step = wall_ns.len().div_ceil(MOST).max(1);
    let times: Vec<f64> = wall_ns.iter().copied().step_by(step).collect();
    if times.is_empty() {
        return None;
    }
    let mut random = Random::new(seed);
    let mut estimate = |statistic: fn(&[f64]) -> f64| {
        let draw =
            |random: &mut Random| -> Vec<f64> { times.iter().map(|_| times[random.below(times.len())]).collect() };
        let mut draws: Vec<f64> = (0..DRAWS).map(|_| statistic(&draw(&mut random))).collect();
        let error = deviation(&draws);
        let [low, high] = Interval::Percent95.of(&mut draws);
        json!({
            "confidence_interval": {"confidence_level": 0.95, "lower_bound": low, "upper_bound": high},
            "point_estimate": statistic(&times),
            "standard_error": error,
        })
    };
    Some(json!({
        "mean": estimate(mean),
        "median": estimate(median),
        "median_abs_dev": estimate(median_deviation),
        "slope": null,
        "std_dev": estimate(deviation),
    }))
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// As criterion has it: between the middle two of an even number.
fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// The median distance from the median, scaled so that it is the deviation of normal data.
fn median_deviation(times: &[f64]) -> f64 {
    let center = median(times);
    let distances: Vec<f64> = times.iter().map(|time| (time - center).abs()).collect();
    median(&distances) * 1.4826
}

fn deviation(times: &[f64]) -> f64 {
    let center = mean(times);
    let squares: f64 = times.iter().map(|time| (time - center).powi(2)).sum();
    (squares / (times.len() as f64 - 1.0).max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn files_are_those_that_tools_look_for() {
        let cell = Cell {
            operation: "gelu".into(),
            elements: 1000,
            shape: "1000".into(),
            dtype: "f32".into(),
            device: "vulkan:0".into(),
            mode: Mode::Host,
        };
        let times: Vec<f64> = (0..101).map(|time| 1000.0 + f64::from(time)).collect();
        let files = files(&cell, &times, 1);
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let folder = "gelu f32/vulkan_0 host/1000/new";
        assert_eq!(paths, [format!("{folder}/benchmark.json"), format!("{folder}/estimates.json")]);
        let estimates: Value = serde_json::from_str(&files[1].text).expect("JSON");
        assert_eq!((&estimates["median"]["point_estimate"], &estimates["slope"]), (&json!(1050.0), &Value::Null));
        let interval = &estimates["mean"]["confidence_interval"];
        let bound = |name: &str| interval[name].as_f64().expect("a number");
        assert!(bound("lower_bound") < 1050.0 && 1050.0 < bound("upper_bound"), "{interval}");
        assert!(super::files(&cell, &[], 1).is_empty());
    }
}
