//! The report's page in a real browser.

mod browser;
mod fixture;
mod large;
mod looks;

use breakeven_study::Summary;
use breakeven_study::report::report;
use browser::{Browser, View};
use fixture::{NASTY, rich_run, summary};
use serde_json::json;

const WIDE: View = View { width: 1280, is_dark: false, runs_scripts: true };

fn page(summary: &Summary) -> String {
    (report("html").expect("listed").make)(summary)
}

fn simulated() -> Summary {
    summary(&[rich_run("2026-11-29T0800-sim", "simulated")])
}

/// A browser that shows `summary`.
fn shown(name: &str, summary: &Summary) -> Browser {
    let mut browser = Browser::start(name);
    browser.open(&page(summary), "", WIDE);
    browser
}

impl Browser {
    fn count(&mut self, selector: &str) -> u64 {
        self.evaluate(&format!("document.querySelectorAll(`{selector}`).length")).as_u64().expect("a count")
    }

    fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector(`{selector}`).innerText"));
        text.as_str().expect("a text").into()
    }

    fn click(&mut self, selector: &str) {
        self.evaluate(&format!("document.querySelector(`{selector}`).click()"));
    }

    fn assert_content(&self) {
        assert_eq!(self.complaints, Vec::<String>::new());
    }
}

fn toggle(group: &str, value: &str) -> String {
    format!("button[data-group=\"{group}\"][data-value=\"{value}\"]")
}

#[test]
fn every_chart_is_drawn() {
    let mut browser = shown("drawn", &simulated());
    // Four operations host to host in f32, three of them on three devices.
    assert_eq!(browser.count("#curves .panel"), 4);
    for part in ["line", "outer", "inner", "dots", "mark"] {
        let more = u64::from(part == "outer" || part == "inner");
        assert_eq!(
            browser.count(&format!("#curves .series .{part}")),
            11 + more,
            "{part}; softmax has a gap on vulkan:1"
        );
    }
    assert_eq!(browser.count("#curves .crossing"), 6);
    assert_eq!(browser.count("#curves .failed"), 4);
    assert_eq!(browser.count("#answer .strip:not(.axis)"), 6);
    assert_eq!(browser.count("#break-even tbody tr"), 6);
    assert_eq!(browser.count("#roofline .roof"), 6, "two of memory, four of transfers");
    assert_eq!(browser.count("#predicted .mark.light"), 3);
    assert!(browser.count("#parts rect.part") > 100);
    assert_eq!(browser.count("#failures > div > .scroll tbody tr"), 3);
    assert_eq!(browser.count("#targets tbody tr"), 3);
    let targets = browser.evaluate("document.querySelector('#targets').textContent");
    let targets = targets.as_str().expect("a text");
    for part in [
        "the longest part: copying on the host takes",
        ", longer than all of cpu",
        "was not measured from host to host",
    ] {
        assert!(targets.contains(part), "{part} in {targets}");
    }
    assert!(browser.text("#answer").starts_with("The GPU wins 3 of 4 operations"), "{}", browser.text("#answer"));
    assert!(browser.text(".banner").starts_with("Simulated data."));
    browser.assert_content();
}

#[test]
fn toggles_change_what_is_drawn_and_are_kept_in_the_address() {
    let mut browser = shown("toggles", &simulated());
    browser.click(&toggle("device", "vulkan:1"));
    assert_eq!(browser.count("#curves .series .line"), 8);
    assert_eq!(browser.count("#failures > div > .scroll tbody tr"), 3, "what failed is shown whatever is chosen");
    browser.click(&toggle("mode", "resident"));
    assert_eq!(browser.count("#curves .panel"), 5);
    browser.click(&toggle("dtype", "f16"));
    assert_eq!(browser.count("#curves .panel"), 6);
    browser.click(&toggle("operation", "add"));
    assert_eq!(browser.count("#curves .panel"), 5);
    assert_eq!(browser.text(&toggle("operation", "add")), "add");
    let pressed = "document.querySelectorAll('#controls .toggle[aria-pressed=true]').length";
    assert_eq!(browser.evaluate(pressed), 2 + 2 + 2 + 3);

    let address = browser.evaluate("location.hash");
    let address = address.as_str().expect("a text");
    assert!(address.contains("mode=host") && address.contains("resident"), "{address}");
    browser.open(&page(&simulated()), address, WIDE);
    assert_eq!(browser.count("#curves .panel"), 5, "the same page again");
    assert_eq!(browser.evaluate(pressed), 9);

    browser
        .evaluate("location.hash = '#operation=add|nothing&theme=dark'; new Promise((done) => setTimeout(done, 50))");
    assert_eq!(browser.count("#curves .panel"), 1, "an address that was changed by hand is followed");
    browser.click("button[data-none]");
    assert_eq!(browser.text("#curves-body"), "Nothing is chosen that was measured.");
    browser.click("button[data-all]");
    assert_eq!(browser.count("#curves .panel"), 4);
    browser.assert_content();
}

#[test]
fn the_keyboard_reaches_everything() {
    let mut browser = shown("keyboard", &simulated());
    browser.evaluate(&format!("document.querySelector(`{}`).focus()", toggle("device", "vulkan:1")));
    browser.press(" ", 32);
    assert_eq!(browser.count("#curves .series .line"), 8, "space is a click");
    let held = format!("document.activeElement === document.querySelector(`{}`)", toggle("device", "vulkan:1"));
    assert_eq!(browser.evaluate(&held), json!(true), "the focus stays");

    browser.evaluate("document.querySelector('#curves svg.chart').focus()");
    assert!(browser.text("#tip").starts_with("cpu: gelu, 1,000 elements"), "{}", browser.text("#tip"));
    browser.press("ArrowRight", 39);
    assert!(browser.text("#tip").starts_with("cpu: gelu, 10,000 elements"));
    browser.press("ArrowUp", 38);
    assert!(browser.text("#tip").starts_with("vulkan:0: gelu, 10,000 elements"), "{}", browser.text("#tip"));
    browser.press("End", 35);
    let tip = browser.text("#tip");
    assert!(
        tip.starts_with("vulkan:0: gelu, 64,000,000 elements") && tip.contains("device lost during submit 41"),
        "{tip}"
    );
    assert!(browser.evaluate("document.getElementById('say').textContent").to_string().contains("lost the device"));
    browser.press("Escape", 27);
    assert_eq!(browser.evaluate("document.getElementById('tip').hidden"), json!(true));

    browser.evaluate("document.querySelector('#parts svg.chart').focus()");
    let first = browser.text("#tip");
    browser.press("ArrowDown", 40);
    assert!(first.contains("not measured") && browser.text("#tip") != first, "{first}");
    browser.assert_content();
}

#[test]
fn the_pointer_finds_points() {
    let mut browser = shown("pointer", &simulated());
    let place = browser.evaluate(
        "(() => { const svg = document.querySelector('#curves svg.chart'); svg.scrollIntoView({ block: 'center', behavior: 'instant' });
           const box = svg.querySelector('.look-1 .mark').getBoundingClientRect();
           return [box.right - 4, box.top + 4]; })()",
    );
    browser.point_at(place[0].as_f64().expect("x"), place[1].as_f64().expect("y"));
    let tip = browser.text("#tip");
    assert!(tip.starts_with("vulkan:0: gelu, 16,000,000 elements") && tip.contains("GB/s"), "{tip}");
    browser.point_at(2.0, 2.0);
    assert_eq!(browser.evaluate("document.getElementById('tip').hidden"), json!(true));
    browser.assert_content();
}

#[test]
fn tables_sort() {
    let mut browser = shown("sort", &simulated());
    let first = "#break-even tbody tr";
    assert!(browser.text(first).starts_with("gelu"));
    let wins =
        "Array.from(document.querySelectorAll('#break-even tbody tr'), (row) => row.children[5].innerText).join(' ')";
    browser.click("#break-even thead th:nth-child(6) button");
    assert_eq!(browser.evaluate(wins), json!("54,300 54,300 243,000 243,000 never never"));
    browser.click("#break-even thead th:nth-child(6) button");
    assert_eq!(
        browser.evaluate(wins),
        json!("243,000 243,000 54,300 54,300 never never"),
        "what is not there stays last"
    );
    assert_eq!(browser.count("#break-even th[aria-sort=\"descending\"]"), 1);
    browser.click("#cells summary");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(browser.count("#cells tbody tr"), 6 * 11 - 1 + 4, "all cells that are chosen, failed ones among them");
    browser.assert_content();
}

#[test]
fn text_of_the_data_is_never_markup() {
    let mut browser = shown("markup", &simulated());
    assert_eq!(browser.evaluate("typeof window.broken"), json!("undefined"));
    assert_eq!(browser.count("b, [onclick]"), 0);
    assert_eq!(browser.count("script"), 2);
    let titles = browser.evaluate("Array.from(document.querySelectorAll('#curves h3'), (title) => title.textContent)");
    assert_eq!(titles[3], json!(NASTY));
    browser.assert_content();
}

#[test]
fn runs_stand_side_by_side() {
    let runs = [rich_run("2026-11-29T0800-a", "measured"), rich_run("2026-11-28T0800-b", "published")];
    let mut browser = shown("runs", &summary(&runs));
    assert_eq!(browser.count("#curves .panel"), 8);
    let tops = browser.evaluate(
        "Array.from(document.querySelectorAll('#curves .panel'), (panel) => panel.getBoundingClientRect().top)",
    );
    assert_eq!(tops[0], tops[1]);
    assert_eq!(browser.count(".banner"), 1);
    assert!(browser.text(".banner").contains("2026-11-28T0800-b"));
    let winners = browser.text("#winners tbody");
    assert!(
        winners.contains("not comparable") && !winners.contains("too close"),
        "published figures win nothing: {winners}"
    );
    browser.click(&toggle("run", "2026-11-28T0800-b"));
    assert_eq!(browser.count("#curves .panel"), 4);
    browser.assert_content();
}

#[test]
fn a_software_device_is_never_called_a_gpu() {
    let mut run = rich_run("2026-11-29T0800-soft", "measured");
    for index in [1, 2] {
        run["manifest"]["environment"]["devices"][index]["kind"] = json!("software");
    }
    let mut browser = shown("software", &summary(&[run]));
    assert!(browser.text("#answer").starts_with("The software device wins 3 of 4"), "{}", browser.text("#answer"));
    assert!(browser.text(".banner").starts_with("vulkan:0 and vulkan:1 are software devices."));
    browser.assert_content();
}

/// The first screen says whether breakeven's own choice is right, and a table where it is not.
#[test]
fn its_own_choice_is_told() {
    let mut browser = shown("choice", &simulated());
    let said = browser.text("#answer .choice");
    assert!(said.contains("not measured") && said.contains("scan without --device"), "{said}");

    let mut run = rich_run("2026-11-29T0800-choice", "measured");
    run["regret"] = fixture::regret();
    browser.open(&page(&summary(&[run])), "", WIDE);
    let said = browser.text("#answer .choice");
    assert!(said.contains("in 2 of 96 cells"), "{said}");
    let bottom = "document.querySelector('#answer .choice').getBoundingClientRect().bottom";
    assert!(browser.evaluate(bottom).as_f64().expect("pixels") < 700.0, "it is on the first screen");
    assert_eq!(browser.count("#choice tbody tr"), 2);
    let row = browser.text("#choice tbody tr");
    for part in ["gelu", "vulkan:0", "cpu", "100%"] {
        assert!(row.contains(part), "{part} in {row}");
    }
    browser.click(&toggle("operation", "gelu"));
    assert_eq!(browser.count("#choice tbody tr"), 1, "what is not chosen is not shown");
    browser.assert_content();
}

/// Copies by themselves run no kernel: their rate is that of what was copied. And clocks that were watched and stayed are not "not watched".
#[test]
fn copies_and_clocks_are_told_as_they_were() {
    let mut run = rich_run("2026-11-29T0800-copy", "measured");
    let mut copy = fixture::cell("gelu", 1_000_000, "vulkan:0", "copy", fixture::GPU);
    copy["copied"] = json!({ "upload_bytes": 4_000_000, "read_bytes": 4_000_000 });
    let mut browser = Browser::start("copy");
    run["cells"].as_array_mut().expect("cells").push(copy);
    let watched = "Array.from(document.querySelectorAll('dl.facts div'), (fact) => fact.textContent).find((text) => text.startsWith('Dropped as'))";
    browser.open(&page(&summary(&[run.clone()])), "#mode=copy", WIDE);
    assert_eq!(browser.evaluate(watched), json!("Dropped as throttlednot watched"));
    browser.evaluate("document.querySelector('#curves svg.chart').focus()");
    let tip = browser.text("#tip");
    assert!(tip.starts_with("vulkan:0: gelu") && tip.contains("GB/s") && !tip.contains("FLOP"), "{tip}");
    run["noise"]["throttling_watched"] = json!(true);
    browser.open(&page(&summary(&[run])), "#mode=host", WIDE);
    assert_eq!(browser.evaluate(watched), json!("Dropped as throttled0 samples"));
    browser.evaluate("document.querySelector('#curves svg.chart').focus()");
    assert!(browser.text("#tip").contains("FLOP/s"), "{}", browser.text("#tip"));
    browser.assert_content();
}

/// Clocks and temperatures as they were read, and what could not be read with the reason.
#[test]
fn sensors_are_told_or_why_not() {
    let mut run = rich_run("2026-11-29T0800-sensed", "measured");
    let facts = "Array.from(document.querySelectorAll('dl.facts div'), (fact) => fact.textContent).join('; ')";
    let mut browser = Browser::start("sensed");
    let mut open = |run: &serde_json::Value| {
        browser.open(&page(&summary(std::slice::from_ref(run))), "", WIDE);
        let text = browser.evaluate(facts).as_str().expect("a text").to_string();
        browser.assert_content();
        text
    };
    let text = open(&run);
    assert!(text.contains("Clocks and temperaturesnot known"), "{text}");
    run["sensed"] = json!({
        "readings": 12, "cpu_hz": [2_300_000_000_u64, 3_400_000_000_u64], "celsius": 61.5, "throttlings": 3,
        "gpus": [{ "name": "card0", "hz": [1_980_000_000, 1_980_000_000], "celsius": null }], "absent": ["thermal zones", "time of the cores"]
    });
    let text = open(&run);
    for part in [
        "Clocks of the cores2.3 GHz to 3.4 GHz",
        "Hottest61.5 °C",
        "Counts of lowered clocksrose by 3",
        "card01.98 GHz, at the hottest not told",
        "Could not be readthermal zones and time of the cores: the system has no file of it",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn copies_and_what_was_made_stand_in_the_table_of_cells() {
    let mut run = rich_run("2026-11-29T0800-made", "measured");
    let cells = run["cells"].as_array_mut().expect("cells");
    cells[1]["made"] = json!({ "calls": 120, "plans": 1, "pipelines": 2 });
    cells[1]["copied"] = json!({ "upload_bytes": 4_000, "read_bytes": 40 });
    let mut browser = shown("made", &summary(&[run]));
    browser.click("#cells summary");
    browser.evaluate("new Promise((done) => setTimeout(done, 50))");
    let table = browser.text("#cells tbody");
    for part in ["1 plan, 2 pipelines in 120 calls", "4 kB up, 40 B back", "allocate 860 ns, upload 4.73 µs, dispatch "]
    {
        assert!(table.contains(part), "{part} in {table:.800}");
    }
    browser.assert_content();
}

#[test]
fn only_a_clear_lead_wins() {
    let slow = |elements| {
        let mut cell = fixture::cell("gelu", elements, "cpu", "host", fixture::CPU);
        let slower = cell["q1_ns"].as_f64().expect("timed") * if elements == 1_000 { 1.01 } else { 2.0 };
        cell["q1_ns"] = json!(slower);
        cell["interval_ns"] = json!([slower * 0.99, slower * 1.01]);
        cell
    };
    let fast = fixture::SIZES.map(|elements| fixture::cell("gelu", elements, "cpu", "host", fixture::CPU));
    let runs =
        [fixture::run("one", "measured", &fast, &[]), fixture::run("two", "measured", &fixture::SIZES.map(slow), &[])];
    let mut browser = shown("winners", &summary(&runs));
    let fastest =
        "Array.from(document.querySelectorAll('#winners tbody tr'), (row) => row.children[6].innerText).join()";
    assert_eq!(
        browser.evaluate(fastest),
        json!("too close to say,cpu of one,cpu of one,cpu of one,cpu of one,cpu of one")
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#winners tbody tr:last-child td:last-child').innerText"),
        json!("2×")
    );
    browser.assert_content();
}

#[test]
fn figures_without_samples_are_shown_as_they_are() {
    let mut browser = shown("bare", &fixture::bare());
    assert_eq!(browser.count("#curves .series .line"), 2);
    assert_eq!(browser.count("#curves .failed"), 1);
    assert!(browser.text("#failures tbody").contains("no sample counts"));
    assert_eq!(browser.count("#answer .strip .win.look-none"), 1);
    assert_eq!(browser.evaluate("document.getElementById('page').innerHTML.includes('NaN')"), json!(false));
    browser.assert_content();
}

#[test]
fn odd_summaries_are_shown() {
    let mut browser = Browser::start("odd");
    let cases = [
        (summary(&[]), 0, "This report holds no run."),
        (fixture::small(&[], &[]), 0, "Nothing was measured."),
        (fixture::small(&[1_000, 10_000], &["cpu"]), 1, "There is nothing to compare"),
        (fixture::small(&[1_000], &["cpu", "vulkan:0"]), 1, "There is nothing to compare"),
        (fixture::many(), 20, "The GPU wins all 20 operations"),
    ];
    for (summary, panels, answer) in cases {
        browser.open(&page(&summary), "", WIDE);
        assert_eq!(browser.count("#curves .panel"), panels, "{answer}");
        assert!(browser.text("#answer").starts_with(answer), "{}", browser.text("#answer"));
        browser.assert_content();
    }
    browser.click(&toggle("mode", "resident"));
    browser.click(&toggle("mode", "chain-8"));
    assert_eq!(browser.count("#curves .panel"), 60);
    browser.assert_content();
}

#[test]
fn without_scripts_the_essentials_are_there() {
    let mut browser = Browser::start("plain");
    browser.open(&page(&simulated()), "", View { runs_scripts: false, ..WIDE });
    let text = browser.text("#page");
    for part in
        ["Simulated data", "GPU from 54,300 elements (40,700 to 72,400)", "no answer within 2 s", "NVIDIA H200", NASTY]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    browser.assert_content();
}

#[test]
fn a_large_study_stays_small() {
    let mut browser = Browser::start("large");
    // 8,300 cells of 120 samples each.
    let page = page(&fixture::large(8_300));
    assert!(page.len() < 5_000_000, "{}", page.len());
    browser.open(&page, "", WIDE);
    assert_eq!(browser.count("#curves .series .line"), 84, "42 operations on two devices");
    browser.assert_content();
}
