//! What a device supports: kernel x element type, as a table that is committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use breakeven_device::Device;
use breakeven_ir::{DType, Kernel};

use crate::suite::witnesses;

/// Kernels, and for each the element types the device takes.
pub type Survey = Vec<(String, BTreeSet<&'static str>)>;

/// Asks the device about one kernel of each sort.
pub fn survey(device: &dyn Device) -> Survey {
    let mut found: Survey = Vec::new();
    for (name, dtype, kernel) in witnesses() {
        if found.last().is_none_or(|(last, _)| *last != name) {
            found.push((name, BTreeSet::new()));
        }
        if answers(device, dtype, &kernel) {
            found.last_mut().expect("it was just pushed").1.insert(dtype.name());
        }
    }
    found
}

fn answers(device: &dyn Device, dtype: DType, kernel: &Kernel) -> bool {
    let caps = device.caps();
    caps.dtypes.iter().chain(&caps.moved).any(|&d| d == dtype) && device.supports(kernel).is_ok()
}

/// The table: for each kernel and device the element types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Support {
    columns: Vec<String>,
    rows: Vec<(String, BTreeMap<String, BTreeSet<String>>)>,
}

impl Support {
    /// Reads the lines of a written table; what is no table is an empty one.
    pub fn parse(text: &str) -> Support {
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let mut lines = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
        let columns: Vec<String> = lines.next().map(cells).unwrap_or_default().into_iter().skip(1).collect();
        let row = |line: &str| {
            let mut cells = cells(line).into_iter();
            let name = cells.next().unwrap_or_default();
            let types = |cell: String| cell.split_whitespace().map(str::to_owned).collect();
            (name, columns.iter().cloned().zip(cells.map(types)).collect())
        };
        Support { rows: lines.map(row).collect(), columns }
    }

    /// What was found on the device of a column.
    pub fn set(&mut self, column: &str, survey: Survey) {
        if !self.columns.iter().any(|c| c == column) {
            self.columns.push(column.to_owned());
        }
        let mut old: BTreeMap<String, _> = self.rows.drain(..).collect();
        for (name, types) in survey {
            let mut cells: BTreeMap<String, BTreeSet<String>> = old.remove(&name).unwrap_or_default();
            cells.insert(column.to_owned(), types.into_iter().map(str::to_owned).collect());
            self.rows.push((name, cells));
        }
    }

    /// What was supported here and is not in `new`.
    pub fn lost(&self, new: &Support) -> Vec<String> {
        let has = |name: &str, column: &str, dtype: &str| {
            let row = new.rows.iter().find(|(n, _)| n == name);
            row.and_then(|(_, cells)| cells.get(column)).is_some_and(|types| types.contains(dtype))
        };
        let mut lost = Vec::new();
        for (name, cells) in &self.rows {
            for (column, types) in cells {
                let gone = types.iter().filter(|dtype| !has(name, column, dtype));
                lost.extend(gone.map(|dtype| format!("{name} of {dtype} on {column}")));
            }
        }
        lost
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What each device supports\n")?;
        writeln!(
            f,
            "Written by `BREAKEVEN_WRITE_SUPPORT=1 cargo test -p breakeven-conformance --test support`. A type that"
        )?;
        writeln!(f, "leaves a cell fails that test; what is here is proved by the suite of the same crate.\n")?;
        writeln!(f, "| kernel | {} |", self.columns.join(" | "))?;
        writeln!(f, "|--{}|", "|--".repeat(self.columns.len()))?;
        for (name, cells) in &self.rows {
            let cell = |column: &String| {
                let types = cells.get(column).map(|t| t.iter().cloned().collect::<Vec<_>>());
                types.unwrap_or_default().join(" ")
            };
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            writeln!(f, "| {name} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written_and_losses_are_found() {
        let mut old = Support::default();
        old.set("a", vec![("add".into(), ["f32", "i32"].into()), ("sin".into(), ["f32"].into())]);
        old.set("b", vec![("add".into(), [].into()), ("sin".into(), ["f32"].into())]);
        assert_eq!(Support::parse(&old.to_string()), old);
        let mut new = old.clone();
        new.set("a", vec![("add".into(), ["f32", "u8"].into())]);
        assert_eq!(old.lost(&new), ["add of i32 on a", "sin of f32 on a", "sin of f32 on b"]);
    }
}
