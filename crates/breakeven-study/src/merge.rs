//! Several runs side by side: never pooled, and with a winner where they can be compared.

use std::collections::BTreeMap;

use crate::{Cell, CellSummary, Mode, Run, Source, Status, StudyDevice, StudyError, Summary, SummarySchema};

/// One summary of all runs of `summaries`, in the order in which they began. The same run twice counts once.
///
/// Devices are called by interface and adapter, "vulkan NVIDIA H200": `wgpu:0` is something else on each machine and through each interface.
///
/// Simulated runs and others are not mixed: what was computed by a simulated clock could pass for a measurement.
pub fn merge(summaries: Vec<Summary>) -> Result<Summary, StudyError> {
    let mut runs: Vec<Run> = Vec::new();
    for run in summaries.into_iter().flat_map(|summary| summary.runs).map(with_hardware_names) {
        match runs.iter().find(|other| other.id == run.id) {
            None => runs.push(run),
            Some(other) if *other == run => {}
            Some(_) => {
                let why = format!("two different runs are both called '{}': measure one of them again", run.id);
                return Err(StudyError::Mixed(why));
            }
        }
    }
    let simulated = runs.iter().filter(|run| run.source == Source::Simulated).count();
    if simulated > 0 && simulated < runs.len() {
        let why = "simulated runs are not shown beside others: they could pass for measurements".into();
        return Err(StudyError::Mixed(why));
    }
    runs.sort_by(|a, b| (&a.manifest.started, &a.id).cmp(&(&b.manifest.started, &b.id)));
    Ok(Summary { schema: SummarySchema {}, runs })
}

/// The run with its devices called by what they are. CPUs keep their name, and so does what the manifest does not know.
fn with_hardware_names(mut run: Run) -> Run {
    let mut names = BTreeMap::<String, String>::new();
    for device in run.manifest.environment.devices.iter().filter(|device| device.kind != "cpu") {
        let plain = hardware_name(device);
        let is_taken = |name: &String| names.values().any(|taken| taken == name);
        // Two of the same in one machine.
        let numbered = (2..).map(|nth| format!("{plain} #{nth}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !is_taken(name));
        names.insert(device.name.clone(), name.expect("there are numbers enough"));
    }
    let rename = |name: &mut String| {
        if let Some(known) = names.get(name.as_str()) {
            name.clone_from(known);
        }
    };
    run.manifest.environment.devices.iter_mut().for_each(|device| rename(&mut device.name));
    run.cells.iter_mut().for_each(|row| rename(&mut row.cell.device));
    run.ceilings.iter_mut().for_each(|ceiling| rename(&mut ceiling.device));
    for found in &mut run.break_even {
        // "2 of 8 sizes failed on wgpu:0, 1 of 8 sizes would take too long on wgpu:0".
        if let Some(known) = names.get(&found.gpu) {
            for on in [format!(" on {}, ", found.gpu), format!(" on {})", found.gpu)] {
                found.verdict = found.verdict.replace(&on, &on.replace(&found.gpu, known));
            }
        }
        [&mut found.cpu, &mut found.gpu].into_iter().for_each(rename);
    }
    for row in run.regret.iter_mut().flat_map(|regret| &mut regret.rows) {
        rename(&mut row.best);
        row.chose.iter_mut().for_each(rename);
    }
    run
}

/// "vulkan NVIDIA H200" for the backend "wgpu/vulkan"; what the driver adds in brackets is left out.
fn hardware_name(device: &StudyDevice) -> String {
    let interface = device.backend.rsplit('/').next().unwrap_or_default();
    let adapter = device.device.split(" (").next().unwrap_or_default();
    if interface.is_empty() || adapter.is_empty() { device.name.clone() } else { format!("{interface} {adapter}") }
}

/// Who was fastest at a size, of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Winner {
    /// The operation.
    pub operation: String,
    /// The shape.
    pub shape: String,
    /// Its size in elements.
    pub elements: u64,
    /// The type of its elements.
    pub dtype: String,
    /// How it was called.
    pub mode: Mode,
    /// The best of each run, the fastest first.
    pub places: Vec<Place>,
    /// Whether the intervals of the first two do not meet, so that the first did win.
    pub is_clear: bool,
}

/// The best device of a run at a size.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The run.
    pub run: String,
    /// The device.
    pub device: String,
    /// Its lower quartile.
    pub q1_ns: f64,
    /// Where that lies with 95% confidence.
    pub interval_ns: [f64; 2],
}

/// The winner of each operation, shape, dtype and mode that at least two runs measured themselves. Published rows take no part.
pub fn winners(summary: &Summary) -> Vec<Winner> {
    let measured = summary.runs.iter().filter(|run| run.source != Source::Published);
    let mut sizes = BTreeMap::<_, BTreeMap<&str, (&Cell, Place)>>::new();
    for (run, row) in measured.flat_map(|run| run.cells.iter().map(move |row| (run, row))) {
        let Some(place) = place(run, row) else { continue };
        let cell = &row.cell;
        let of_size = sizes.entry((&cell.operation, &cell.dtype, cell.mode, cell.elements, &cell.shape)).or_default();
        let best = of_size.entry(&run.id).or_insert((cell, place.clone()));
        if place.q1_ns < best.1.q1_ns {
            *best = (cell, place);
        }
    }
    sizes.into_values().filter(|runs| runs.len() > 1).map(winner).collect()
}

fn place(run: &Run, row: &CellSummary) -> Option<Place> {
    let (q1_ns, interval_ns) = (row.q1_ns?, row.interval_ns?);
    let place = Place { run: run.id.clone(), device: row.cell.device.clone(), q1_ns, interval_ns };
    (row.status == Status::Ok).then_some(place)
}

fn winner(runs: BTreeMap<&str, (&Cell, Place)>) -> Winner {
    let cell = runs.values().next().expect("at least two").0;
    let (operation, shape, dtype) = (cell.operation.clone(), cell.shape.clone(), cell.dtype.clone());
    let (elements, mode) = (cell.elements, cell.mode);
    let mut places: Vec<Place> = runs.into_values().map(|(_, place)| place).collect();
    places.sort_by(|a, b| a.q1_ns.total_cmp(&b.q1_ns));
    let is_clear = places[0].interval_ns[1] < places[1].interval_ns[0];
    Winner { operation, shape, elements, dtype, mode, places, is_clear }
}
