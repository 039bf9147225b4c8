//! One line a cell, for spreadsheets.

use crate::{CellSummary, Run, Summary};

const HEADER: &str = "run,source,operation,elements,shape,dtype,device,mode,status,why,samples,dropped,min_ns,q1_ns,median_ns,p90_ns,p99_ns,\
low_ns,high_ns,allocate_ns,upload_ns,dispatch_ns,kernel_ns,read_ns,wait_ns,bytes,flops,predicted_ns,\
upload_bytes,read_bytes,pool_hits,pool_misses,pool_bytes,calls,plans_made,pipelines_made,flags,ran";

/// The text of `summary.csv`, as RFC 4180 has it but with plain line ends. What was not measured is empty.
pub fn make(summary: &Summary) -> String {
    let rows = summary.runs.iter().flat_map(|run| run.cells.iter().map(move |row| line(run, row)));
    std::iter::once(HEADER.to_string()).chain(rows).map(|line| line + "\n").collect()
}

fn line(run: &Run, row: &CellSummary) -> String {
    let (cell, parts) = (&row.cell, &row.parts);
    let text = [
        run.id.clone(),
        word(&run.source),
        cell.operation.clone(),
        cell.elements.to_string(),
        cell.shape.clone(),
        cell.dtype.clone(),
        cell.device.clone(),
        cell.mode.to_string(),
        row.status.to_string(),
        row.why.clone().unwrap_or_default(),
        row.samples.to_string(),
        row.dropped.to_string(),
    ];
    let [low, high] = row.interval_ns.map_or([None, None], |interval| interval.map(Some));
    let times = [row.min_ns, row.q1_ns, row.median_ns, row.p90_ns, row.p99_ns, low, high];
    let parts = [parts.allocate_ns, parts.upload_ns, parts.dispatch_ns, parts.kernel_ns, parts.read_ns, parts.wait_ns];
    let work = [row.bytes, row.flops].map(|work| work.map(|work| work as f64));
    let numbers = times.into_iter().chain(parts).chain(work).chain([row.predicted_ns]);
    let numbers = numbers.map(|number| number.map(|number| number.to_string()).unwrap_or_default());
    let numbers = numbers.chain(counts(row).map(|count| count.map(|count| count.to_string()).unwrap_or_default()));
    let last = [row.flags.join("; "), row.ran.clone().unwrap_or_default()];
    let fields: Vec<String> = text.into_iter().chain(numbers).chain(last).map(|field| quoted(&field)).collect();
    fields.join(",")
}

/// What a call copies, what the pool did, and what was made.
fn counts(row: &CellSummary) -> [Option<u64>; 8] {
    let copied = row.copied.map(|copied| [copied.upload_bytes, copied.read_bytes]);
    let pool = row.pool.map(|pool| [pool.hits, pool.misses, pool.bytes]);
    let made = row.made.map(|made| [made.calls, made.plans]);
    let [upload, read] = copied.map_or([None; 2], |counts| counts.map(Some));
    let [hits, misses, bytes] = pool.map_or([None; 3], |counts| counts.map(Some));
    let [calls, plans] = made.map_or([None; 2], |counts| counts.map(Some));
    [upload, read, hits, misses, bytes, calls, plans, row.made.and_then(|made| made.pipelines)]
}

/// The word that stands for a value in the summary.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}

/// A field in quotes where it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
