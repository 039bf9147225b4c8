//! The page of a study with more cells than it tells in full.

use serde_json::{Value, json};

use super::fixture::{CPU, GPU, cell, failed, rich_run, summary};
use super::shown;

/// 2,100 sizes on two devices, ten of which failed on one.
fn cells() -> Vec<Value> {
    let of_size = |elements: u64| {
        let gpu = match elements % 210 {
            7 => failed("gelu", elements, "vulkan:0", "wrong", "element 3 is 1 instead of 2"),
            _ => cell("gelu", elements, "vulkan:0", "host", GPU),
        };
        [cell("gelu", elements, "cpu", "host", CPU), gpu]
    };
    (1..=2_100).flat_map(of_size).collect()
}

#[test]
fn charts_are_whole_and_tables_say_what_they_leave_out() {
    let mut run = rich_run("large", "measured");
    run["cells"] = json!(cells());
    let mut browser = shown("large", &summary(&[run]));
    assert_eq!(browser.count("#curves .panel"), 1);
    browser.click("#cells summary");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(browser.count("#cells tbody tr"), 600);
    let caption = browser.text("#cells caption");
    assert!(caption.contains("3,600 more cells") && caption.contains("summary.csv"), "{caption}");
    assert_eq!(browser.count("#failures tbody tr"), 10);
    assert!(browser.text("#failures caption").contains("Every one is listed"), "ten failed");
    browser.assert_content();
}
