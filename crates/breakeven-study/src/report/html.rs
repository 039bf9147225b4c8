//! The report as one HTML page, which holds the summary, its own program and its own style, and asks for nothing else.

mod embed;
mod plain;

use crate::Summary;

const TEMPLATE: &str = include_str!("page/index.html");

const STYLES: [&str; 3] =
    [include_str!("page/style.css"), include_str!("page/charts.css"), include_str!("page/tables.css")];

/// The page's program; all files are parts of one function.
const SCRIPTS: [&str; 17] = [
    include_str!("page/dom.js"),
    include_str!("page/units.js"),
    include_str!("page/data.js"),
    include_str!("page/scale.js"),
    include_str!("page/chart.js"),
    include_str!("page/tip.js"),
    include_str!("page/curves.js"),
    include_str!("page/bars.js"),
    include_str!("page/roof.js"),
    include_str!("page/scatter.js"),
    include_str!("page/tables.js"),
    include_str!("page/winners.js"),
    include_str!("page/choice.js"),
    include_str!("page/answer.js"),
    include_str!("page/controls.js"),
    include_str!("page/facts.js"),
    include_str!("page/main.js"),
];

/// The page of `summary`.
pub fn make(summary: &Summary) -> String {
    let script = format!("(() => {{\n\"use strict\";\n{}}})();", SCRIPTS.concat());
    let filled = [
        ("{{style}}", STYLES.concat()),
        ("{{plain}}", plain::tables(summary)),
        ("{{summary}}", embed::json(summary)),
        ("{{script}}", script),
    ];
    let mut page = String::new();
    let mut rest = TEMPLATE;
    // In order and never looked at again, so that no text of the data can pass for a mark.
    for (mark, text) in filled {
        let (before, after) = rest.split_once(mark).expect("the template has each mark once, in this order");
        page.push_str(before);
        page.push_str(&text);
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(runs: &serde_json::Value) -> Summary {
        serde_json::from_value(serde_json::json!({ "schema": "breakeven.summary/1", "runs": runs })).expect("valid")
    }

    #[test]
    fn a_page_without_runs_is_complete() {
        let page = make(&summary_of(&serde_json::json!([])));
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(!page.contains("{{"), "a mark was left");
    }

    #[test]
    fn nothing_is_asked_of_the_network() {
        let page = make(&summary_of(&serde_json::json!([])));
        let addresses: Vec<&str> = page.match_indices("//www.").map(|(at, _)| &page[at..at + 24]).collect();
        assert_eq!(addresses, ["//www.w3.org/2000/svg\";\n"], "only the name of SVG looks like an address");
        for word in ["src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "https:"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn each_file_has_one_purpose_and_is_short() {
        for text in SCRIPTS.iter().chain(&STYLES) {
            assert!(text.starts_with("// ") || text.starts_with("/* "), "{text:.60}");
            assert!(text.lines().count() < 400, "{text:.60}");
            assert!(!text.contains("</script") && !text.contains("</style"), "{text:.60}");
        }
    }
}
