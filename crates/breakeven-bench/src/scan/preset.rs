//! Which cells a study has: presets, and what of them is asked for.

use std::ops::RangeInclusive;
use std::time::Duration;

use breakeven_study::Mode;

use super::operation::{ELEMENTS, OPERATIONS, Operation, Suite};
use super::task::Effort;
use super::{Error, Result, child, operation};

/// How much of the study is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Five operations, a minute.
    Quick,
    /// The operations and sizes of the reports that this project began with.
    Seeds,
    /// Layers of models.
    Models,
}

/// What of a preset is measured; an empty list takes all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Operations by name.
    pub operations: Vec<String>,
    /// Sizes, as operations count them: [`Operation::counts`].
    pub sizes: Option<RangeInclusive<usize>>,
    /// Types of elements; f32 when none.
    pub dtypes: Vec<String>,
    /// Ways of calling.
    pub modes: Vec<Mode>,
}

/// What one child process measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The operation.
    pub operation: &'static str,
    /// Type of its elements.
    pub dtype: String,
    /// Sizes.
    pub sizes: Vec<usize>,
    /// Ways of calling.
    pub modes: Vec<Mode>,
}

/// Repetitions of an operation on its own result.
const CHAIN: Mode = Mode::Chain(16);
/// Operations of [`Preset::Seeds`] whose first calls are measured too: one of light work, one that folds, one of heavy work.
const FIRST_CALLS: [&str; 3] = ["add", "softmax", "matmul"];
/// Operations of [`Preset::Quick`]: one of each kind.
const QUICK: [&str; 5] = ["add", "gelu", "sum", "softmax", "matmul"];

/// The groups of a preset that a filter leaves; fails where nothing is left or a name means nothing.
pub fn groups(preset: Preset, filter: &Filter) -> Result<Vec<Group>> {
    for name in &filter.operations {
        operation::find(name).ok_or_else(|| Error::operation(name))?;
    }
    let dtypes = if filter.dtypes.is_empty() { vec!["f32".to_owned()] } else { filter.dtypes.clone() };
    for dtype in &dtypes {
        child::dtype(dtype)?;
    }
    let of = |operation: &'static Operation| dtypes.iter().map(move |dtype| group(operation, dtype, preset, filter));
    let wanted = OPERATIONS.iter().filter(|operation| is_wanted(operation, preset, filter));
    let groups = wanted.flat_map(of).filter(|g| !g.sizes.is_empty() && !g.modes.is_empty());
    let groups: Vec<Group> = groups.collect();
    let first_calls = groups.iter().filter_map(|group| with_first_calls(group, preset, filter));
    let groups: Vec<Group> = groups.iter().cloned().chain(first_calls).collect();
    if groups.is_empty() { Err(Error::Nothing { sizes: sizes_of(preset, filter) }) } else { Ok(groups) }
}

/// "add 1000, 10000, 50000 (elements)", for each operation that is wanted.
fn sizes_of(preset: Preset, filter: &Filter) -> String {
    let wanted = OPERATIONS.iter().filter(|operation| is_wanted(operation, preset, filter));
    let one = |operation: &Operation| {
        let sizes: Vec<String> = sizes(operation, preset).map(|size| size.to_string()).collect();
        format!("{} {} ({})", operation.name, sizes.join(", "), operation.counts)
    };
    wanted.map(one).collect::<Vec<_>>().join("; ")
}

/// What sizes count and how far they reach, all presets together: "elements (1000 to 4000000), for matmul the side of both matrices (32 to 2048)".
pub fn sizes_in_words() -> String {
    let (lines, others): (Vec<&Operation>, Vec<&Operation>) =
        OPERATIONS.iter().partition(|operation| operation.counts == ELEMENTS);
    let reach = |operations: &[&Operation]| {
        let sizes = || operations.iter().flat_map(|operation| operation.sizes).copied();
        format!("({} to {})", sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    };
    let other =
        |operation: &&Operation| format!(", for {} {} {}", operation.name, operation.counts, reach(&[operation]));
    format!("{ELEMENTS} {}{}", reach(&lines), others.iter().map(other).collect::<String>())
}

fn is_wanted(operation: &Operation, preset: Preset, filter: &Filter) -> bool {
    if !filter.operations.is_empty() {
        return filter.operations.iter().any(|name| name == operation.name);
    }
    match preset {
        Preset::Quick => QUICK.contains(&operation.name),
        Preset::Seeds => operation.suite == Suite::Seeds,
        Preset::Models => operation.suite == Suite::Models,
    }
}

fn group(operation: &'static Operation, dtype: &str, preset: Preset, filter: &Filter) -> Group {
    let all: &[Mode] = match preset {
        Preset::Seeds => &[Mode::Host, Mode::Upload, Mode::Resident, CHAIN, Mode::Copy, Mode::Kernel],
        Preset::Quick | Preset::Models => &[Mode::Host, Mode::Resident],
    };
    let modes = if filter.modes.is_empty() { all } else { &filter.modes[..] };
    let modes = modes.iter().copied().filter(|mode| operation.chains || !matches!(mode, Mode::Chain(_)));
    let is_in = |size: &usize| filter.sizes.as_ref().is_none_or(|sizes| sizes.contains(size));
    let sizes = sizes(operation, preset).filter(is_in).collect();
    Group { operation: operation.name, dtype: dtype.to_owned(), sizes, modes: modes.collect() }
}

/// The sizes that a preset has for an operation.
fn sizes(operation: &Operation, preset: Preset) -> impl Iterator<Item = usize> {
    operation.sizes.iter().copied().filter(move |size| preset != Preset::Quick || is_quick(operation, *size))
}

/// A group of its own for first calls, at the smallest and the largest size: each of them takes an engine, or a process.
fn with_first_calls(group: &Group, preset: Preset, filter: &Filter) -> Option<Group> {
    let is_wanted = preset == Preset::Seeds && filter.modes.is_empty() && FIRST_CALLS.contains(&group.operation);
    let mut sizes = vec![*group.sizes.first()?, *group.sizes.last()?];
    sizes.dedup();
    is_wanted.then(|| Group { sizes, modes: vec![Mode::Cold, Mode::First], ..group.clone() })
}

/// Every second size is enough to see where a curve goes.
fn is_quick(operation: &Operation, size: usize) -> bool {
    operation.sizes.iter().position(|s| *s == size).is_some_and(|i| i % 2 == 0) || operation.sizes.len() <= 4
}

/// What each size of each group may take, so that all of them together take about `total`.
pub fn effort(groups: &[Group], total: Duration) -> Effort {
    let sizes: u32 = groups.iter().map(|group| group.sizes.len() as u32).sum();
    // A third goes into starting processes, checking results and waking devices.
    let each = total.mul_f64(0.65) / sizes.max(1);
    Effort {
        rounds: 5,
        block: 5,
        budget_ms: each.as_millis() as u64,
        warm_up_ms: 40,
        deadline_ms: 20_000,
        silence_ms: 150_000,
        slowed: 0.0,
        limit: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(preset: Preset, filter: &Filter) -> Vec<&'static str> {
        groups(preset, filter).unwrap().iter().map(|group| group.operation).collect()
    }

    #[test]
    fn presets_have_what_they_promise() {
        assert_eq!(names(Preset::Quick, &Filter::default()), ["add", "gelu", "softmax", "sum", "matmul"]);
        let seeds = groups(Preset::Seeds, &Filter::default()).unwrap();
        for name in [
            "add",
            "mul",
            "dot",
            "relu",
            "leaky_relu",
            "elu",
            "clip",
            "sigmoid",
            "tanh",
            "silu",
            "gelu",
            "softmax",
            "log_softmax",
            "sum",
            "mean",
        ] {
            let group = seeds.iter().find(|group| group.operation == name).unwrap();
            let printed = [1_000, 10_000, 100_000, 1_000_000];
            assert!(printed.iter().all(|size| group.sizes.contains(size)), "{name}: {:?}", group.sizes);
        }
        let of = |name: &str| seeds.iter().find(|group| group.operation == name).unwrap_or_else(|| panic!("{name}"));
        assert!([20_000, 200_000, 2_000_000].iter().all(|size| of("add").sizes.contains(size)), "{:?}", of("add"));
        assert!([100, 1000, 2048].iter().all(|size| of("matmul").sizes.contains(size)), "{:?}", of("matmul"));
        assert!(of("add").modes.contains(&Mode::Copy) && of("add").modes.contains(&Mode::Kernel));
        assert_eq!(of("conv2d").sizes, [32, 64, 128, 256, 512]);
        assert!(of("conv2d_16_to_32").sizes.contains(&64), "1x16x64x64 was published");
        let batches = ["similar", "diverse", "alternating", "large", "large_alternating", "uniform_32k", "uniform_64k"];
        for name in batches {
            assert!(!of(&format!("batch_{name}")).sizes.is_empty(), "{name}");
        }
        assert!([20_000, 50_000, 100_000, 200_000, 500_000].iter().all(|size| of("add").sizes.contains(size)));
        let models = names(Preset::Models, &Filter::default());
        assert!(models.contains(&"encoder_layer") && models.contains(&"mlp"), "{models:?}");
    }

    #[test]
    fn filters_leave_what_they_name_and_refuse_what_they_do_not_know() {
        let filter = Filter { operations: vec!["tanh".into()], sizes: Some(5_000..=200_000), ..Filter::default() };
        let [group] = &groups(Preset::Quick, &filter).unwrap()[..] else { panic!("one operation") };
        assert!(group.sizes.iter().all(|size| (5_000..=200_000).contains(size)) && !group.sizes.is_empty());
        let wrong = Filter { operations: vec!["tahn".into()], ..Filter::default() };
        assert!(groups(Preset::Quick, &wrong).unwrap_err().to_string().contains("tanh"));
        let nothing = Filter { sizes: Some(7..=8), ..Filter::default() };
        let why = groups(Preset::Quick, &nothing).unwrap_err().to_string();
        assert!(
            why.contains("nothing is left") && why.contains("add 1000, 10000, 50000, 200000, 1000000 (elements);"),
            "{why}"
        );
        assert!(why.contains("matmul 32, 100, 256, 512, 1024 (the side of both matrices)"), "{why}");
        let why = groups(Preset::Seeds, &nothing).unwrap_err().to_string();
        assert!(why.contains("conv2d 32, 64, 128, 256, 512 (the side of the image)"), "{why}");
    }

    #[test]
    fn sizes_are_said_as_operations_have_them() {
        let said = sizes_in_words();
        let wanted = "elements (1000 to 4000000), for matmul the side of both matrices (32 to 2048), for conv2d the side of the image (32 to 512)";
        assert!(said.starts_with(wanted) && said.ends_with("for mlp rows of 384 elements (1 to 4096)"), "{said}");
    }

    #[test]
    fn first_calls_are_of_few_operations_and_sizes() {
        let seeds = groups(Preset::Seeds, &Filter::default()).unwrap();
        let first: Vec<&Group> = seeds.iter().filter(|group| group.modes.contains(&Mode::Cold)).collect();
        assert_eq!(first.iter().map(|group| group.operation).collect::<Vec<_>>(), ["add", "softmax", "matmul"]);
        assert!(first.iter().all(|group| group.sizes.len() == 2 && group.modes == [Mode::Cold, Mode::First]));
        let quick = groups(Preset::Quick, &Filter::default()).unwrap();
        assert!(quick.iter().all(|group| !group.modes.contains(&Mode::Cold)));
        let asked = Filter { modes: vec![Mode::Cold], operations: vec!["relu".into()], ..Filter::default() };
        let [group] = &groups(Preset::Seeds, &asked).unwrap()[..] else { panic!("one operation") };
        assert_eq!((group.modes.as_slice(), group.sizes.len()), (&[Mode::Cold][..], 4));
    }

    #[test]
    fn batches_are_those_that_were_published() {
        let seeds = groups(Preset::Seeds, &Filter::default()).unwrap();
        let sizes = |name: &str| seeds.iter().find(|group| group.operation == name).unwrap().sizes.clone();
        assert_eq!(sizes("many_small_adds"), sizes("single_large_add"));
        assert_eq!(sizes("many_small_calls"), sizes("single_large_add"));
        assert_eq!(sizes("many_small_relus"), sizes("single_large_relu"));
        assert!(sizes("many_small_adds").contains(&5_120), "twenty of 256");
        let all = [
            ("batch_uniform_32k", 128_000),
            ("batch_uniform_64k", 256_000),
            ("batch_similar", 103_000),
            ("batch_alternating", 120_000),
            ("batch_diverse", 360_000),
            ("batch_large", 4_000_000),
            ("batch_large_alternating", 2_304_000),
        ];
        assert!(all.iter().all(|(name, elements)| sizes(name) == [*elements]));
        assert_eq!(seeds.iter().filter(|group| group.operation.starts_with("batch_")).count(), all.len());
    }

    #[test]
    fn what_does_not_repeat_on_its_own_result_has_no_chain() {
        let seeds = groups(Preset::Seeds, &Filter::default()).unwrap();
        let has_chain = |name: &str| seeds.iter().find(|g| g.operation == name).unwrap().modes.contains(&CHAIN);
        assert!(has_chain("relu") && has_chain("matmul") && !has_chain("sum") && !has_chain("conv2d"));
    }
}
