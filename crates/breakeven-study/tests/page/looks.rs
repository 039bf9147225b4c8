//! What the page looks like: no label on another, text that can be read on its ground, widths, themes, paper.

use breakeven_study::Summary;
use breakeven_study::merge::merge;
use serde_json::json;

use super::browser::{Browser, View};
use super::fixture::{self, rich_run, run, summary};
use super::{WIDE, page, simulated, toggle};

const PHONE: View = View { width: 360, ..WIDE };

/// Pairs of texts of a chart that lie on each other.
const OVERLAPS: &str = r"
Array.from(document.querySelectorAll('svg.chart, svg.axis')).flatMap((svg) => {
  const boxes = Array.from(svg.querySelectorAll('text'), (text) => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], index) => boxes.slice(index + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
    .map(([other]) => `${one} / ${other}`));
})";

/// Texts whose contrast to the ground below them is less than WCAG's AA asks for.
const FAINT: &str = r"
(() => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const bar = (text) => {
    const name = Array.from(text.classList).find((name) => name !== 'inside');
    const rect = text.closest('svg').querySelector(`rect.part.${name}`);
    return numbers(getComputedStyle(rect).fill);
  };
  const faint = new Set();
  for (const node of document.querySelectorAll('#page *')) {
    const hasText = Array.from(node.childNodes).some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!hasText || node.closest('noscript') || node.getClientRects().length === 0) continue;
    const style = getComputedStyle(node);
    const isSvg = node.namespaceURI.endsWith('svg');
    const below = node.matches('.inside:not(.rest)') ? bar(node) : ground(node);
    const [a, b] = [light(numbers(isSvg ? style.fill : style.color)), light(below)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.add(`${node.className.baseVal ?? node.className} ${node.textContent.slice(0, 20)}: ${contrast.toFixed(2)}`);
  }
  return [...faint];
})()";

const GROUND: &str = "getComputedStyle(document.body).backgroundColor";

/// One machine through two interfaces, as `merge` sets them side by side.
fn merged() -> Summary {
    let through = |backend: &str| {
        let mut run = rich_run(&format!("2026-11-29T0800-{backend}"), "measured");
        run["manifest"]["environment"]["devices"][1]["backend"] = json!(format!("wgpu/{backend}"));
        run["regret"] = fixture::regret();
        summary(&[run])
    };
    merge(vec![through("vulkan"), through("dx12")]).expect("two runs")
}

#[test]
fn interfaces_stand_side_by_side_by_name() {
    let mut browser = Browser::start("interfaces");
    browser.open(&page(&merged()), "", WIDE);
    for name in ["cpu", "vulkan NVIDIA H200", "dx12 NVIDIA H200", "Vulkan AMD Radeon RX 7900"] {
        assert_eq!(browser.count(&toggle("device", name)), 1, "{name}");
    }
    let winners = browser.text("#winners tbody");
    assert!(winners.contains("NVIDIA H200") && !winners.contains("vulkan:0"), "{winners:.400}");
    browser.click(&toggle("device", "dx12 NVIDIA H200"));
    let address = browser.evaluate("location.hash");
    browser.open(&page(&merged()), address.as_str().expect("a text"), WIDE);
    let pressed =
        format!("document.querySelector(`{}`).getAttribute('aria-pressed')", toggle("device", "dx12 NVIDIA H200"));
    assert_eq!(browser.evaluate(&pressed), json!("false"), "names with spaces are kept in the address");
    browser.assert_content();
}

fn summaries() -> [(&'static str, Summary); 5] {
    [
        ("merged", merged()),
        ("rich", simulated()),
        ("two", summary(&[rich_run("2026-11-29T0800-a", "measured"), rich_run("2026-11-28T0800-b", "published")])),
        ("many", fixture::many()),
        ("empty", summary(&[run("2026-11-29T0800-empty", "measured", &[], &[])])),
    ]
}

#[test]
fn no_label_lies_on_another_and_no_page_scrolls_sideways() {
    let mut browser = Browser::start("labels");
    for (name, summary) in summaries() {
        for width in [1280, 800, 360] {
            browser.open(&page(&summary), "", View { width, ..WIDE });
            assert_eq!(browser.evaluate(OVERLAPS), json!([]), "{name} at {width}");
            let overflow =
                browser.evaluate("document.documentElement.scrollWidth - innerWidth").as_i64().expect("pixels");
            assert!(overflow <= 0, "{name} at {width}: {overflow} too wide");
        }
    }
    browser.assert_content();
}

#[test]
fn text_can_be_read_in_light_and_dark() {
    let mut browser = Browser::start("contrast");
    for is_dark in [false, true] {
        browser.open(&page(&simulated()), "", View { is_dark, ..WIDE });
        browser.evaluate("for (const details of document.querySelectorAll('details')) details.open = true");
        assert_eq!(browser.evaluate(FAINT), json!([]), "dark: {is_dark}");
    }
    browser.assert_content();
}

#[test]
fn the_theme_follows_the_system_until_one_is_chosen() {
    let mut browser = Browser::start("theme");
    browser.open(&page(&simulated()), "", WIDE);
    let light = browser.evaluate(GROUND);
    browser.look(View { is_dark: true, ..WIDE });
    let dark = browser.evaluate(GROUND);
    assert_ne!(light, dark);
    browser.click(&toggle("theme", "light"));
    assert_eq!(browser.evaluate(GROUND), light);
    browser.look(WIDE);
    browser.click(&toggle("theme", "dark"));
    assert_eq!(browser.evaluate(GROUND), dark);
    assert_eq!(browser.evaluate("location.hash"), json!("#theme=dark"));
}

#[test]
fn on_paper_everything_is_open() {
    let mut browser = Browser::start("paper");
    browser.open(&page(&simulated()), "#theme=dark", WIDE);
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(browser.count("details:not([open])"), 0);
    assert!(browser.count("#cells tbody tr") > 60, "the table of all cells is printed");
    browser.evaluate("dispatchEvent(new Event('afterprint'))");
    assert_eq!(browser.count("details[open]"), 0);
    assert!(browser.print("report.pdf").starts_with(b"%PDF"));
}

/// Leaves pictures in the target folder for people to look at, after each change of the page.
#[test]
fn pictures_can_be_taken() {
    let mut browser = Browser::start("pictures");
    let views = [("light", WIDE), ("dark", View { is_dark: true, ..WIDE }), ("phone", PHONE)];
    let pictures = views.map(|(name, view)| {
        browser.open(&page(&simulated()), "", view);
        browser.picture(&format!("{name}.png"))
    });
    assert!(pictures.iter().all(|picture| picture.starts_with(b"\x89PNG")));
    assert_ne!(pictures[0], pictures[1]);
    browser.assert_content();
}
