//! The operators that the reader has, with their attributes: found in its tables, so that a new one is fuzzed at once.

use std::sync::OnceLock;

/// One operator.
#[derive(Debug)]
pub struct Operator {
    pub name: String,
    pub attributes: Vec<String>,
    /// It belongs to the domain of what is not settled.
    pub is_preview: bool,
}

/// All operators of all families, in order of file and table.
pub fn all() -> &'static [Operator] {
    static ALL: OnceLock<Vec<Operator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = std::fs::read_dir(crate::OPERATORS).expect("the repository is there, the fuzzer runs in it");
        let mut files: Vec<_> = files.map(|file| file.expect("a folder can be listed").path()).collect();
        files.sort();
        let all: Vec<Operator> =
            files.iter().flat_map(|file| tables(&std::fs::read_to_string(file).expect("a file of ours"))).collect();
        assert!(all.len() > 150, "the tables of operators are written otherwise: {} were found", all.len());
        all
    })
}

/// Every `one("Name", ATTRIBUTES, ..)` and `many("Name", ATTRIBUTES, ..)` of a file.
fn tables(text: &str) -> Vec<Operator> {
    let preview = text.find("const PREVIEW").unwrap_or(text.len());
    let entry = |place: usize| {
        let at = &text[place..];
        let (name, rest) = at.trim_start().strip_prefix('"')?.split_once('"')?;
        let given = rest.strip_prefix(',')?.trim_start();
        let list = if given.starts_with('&') { given } else { constant(text, given.split([',', ')']).next()?)? };
        let list = list.split_once('[')?.1.split_once(']')?.0;
        let attributes = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        Some(Operator { name: name.to_owned(), attributes, is_preview: place > preview && place < preview + 200 })
    };
    let calls = ["one(", "many(", "random("];
    let starts = calls.iter().flat_map(|call| text.match_indices(call).map(|(at, _)| at + call.len()));
    starts.filter_map(entry).collect()
}

/// The list that a constant of the file stands for.
fn constant<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let at = text.find(&format!("const {}: &[&str]", name.trim()))?;
    text[at..].split_once('=').map(|(_, list)| list)
}
