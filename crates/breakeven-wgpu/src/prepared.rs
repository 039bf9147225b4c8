//! Segments compiled for this device.

use std::sync::{Arc, Mutex};

use breakeven_device::{Prepared, Result, Segment, SegmentStep};
use breakeven_ir::Launch;

use crate::counters::{count, count_all};
use crate::errors::lock;
use crate::kernels::{Dispatch, Planned, Shaping, plan_all};
use crate::memory::{Gpu, Raw};
use crate::pipeline::{Pipeline, Pipelines, Wanted};
use crate::recent::Recent;
use crate::wgsl::{Bound, Place};

/// A segment with its pipelines, its arguments in device memory, and the bind groups of the buffers it saw last.
#[derive(Debug)]
pub(crate) struct WgpuPrepared {
    pub steps: Vec<Step>,
    /// Scratch memory of its own that a submission needs, in bytes.
    pub scratch: u64,
    /// Highest slot it names, plus one.
    pub slots: usize,
    segment: Segment,
    args: Option<wgpu::Buffer>,
    groups: Mutex<Recent<Vec<u64>, Arc<Groups>>>,
    /// The same segment with slots that stand for one buffer made one.
    merged: Mutex<Recent<Vec<usize>, Arc<WgpuPrepared>>>,
}

impl Prepared for WgpuPrepared {}

fn made(of: usize, step: &SegmentStep) -> Option<Step> {
    match *step {
        SegmentStep::Upload { upload, slot } => Some(Step::Upload { upload, slot, of }),
        SegmentStep::Copy { from, to, bytes } => Some(Step::Copy { from, to, bytes, of }),
        SegmentStep::Download { slot, bytes, read } => Some(Step::Download { slot, bytes, read, of }),
        SegmentStep::Launch(_) => None,
    }
}

/// Bind groups of all dispatches, in order.
pub(crate) type Groups = Vec<wgpu::BindGroup>;

/// What is encoded, in order.
#[derive(Debug)]
pub(crate) enum Step {
    Upload {
        upload: usize,
        slot: usize,
        /// The step of the segment that it is.
        of: usize,
    },
    /// Dispatches in one compute pass.
    Pass(Vec<Ready>),
    Copy {
        from: usize,
        to: usize,
        bytes: u64,
        of: usize,
    },
    Download {
        slot: usize,
        bytes: u64,
        read: usize,
        of: usize,
    },
}

/// A dispatch with its pipeline and its part of the argument buffer.
#[derive(Debug)]
pub(crate) struct Ready {
    pub pipeline: Arc<Pipeline>,
    pub grid: [u32; 3],
    /// Steps of the segment that it carries out, perhaps with the dispatches around it that have this very list.
    pub launches: Arc<[usize]>,
    bound: Vec<Bound>,
    args: (u64, u64),
    workspace: Option<usize>,
    /// By the buffers that it binds.
    groups: Mutex<Recent<Vec<u64>, wgpu::BindGroup>>,
}

impl Ready {
    /// The buffers that it binds, in order.
    fn raws<'a>(&self, buffers: &[&'a Raw], scratch: Option<&'a Raw>) -> Vec<&'a Raw> {
        let raw = |bound: &Bound| match (bound.place, self.workspace) {
            (Place::Slot(slot), _) | (Place::Scratch, Some(slot)) => buffers[slot],
            (Place::Scratch, None) => scratch.expect("scratch memory was taken for the segment"),
        };
        self.bound.iter().map(raw).collect()
    }
}

/// Sets of buffers whose bind groups are kept together, and ways of sharing buffers whose segments are kept.
const REMEMBERED: usize = 8;

/// Bind groups that a segment keeps. Where a caller holds results, or several threads or batches are on their way, buffers change
/// places in their pool at random, and a dispatch that reads one and writes one meets each pair of them: 700 where 27 buffers
/// are about, as with four threads, for each of three dispatches. Whoever has many dispatches has long work, and notices
/// less when a group is made anew.
const GROUPS: usize = 2048;

/// Bind groups that all segments of a device keep, and one more for each of their dispatches: a driver holds about a KiB for each.
pub(crate) const ALL_GROUPS: usize = 8 * GROUPS;

/// How many of them each of so many dispatches keeps.
fn share(dispatches: usize) -> usize {
    (GROUPS / dispatches.max(1)).max(REMEMBERED)
}

impl WgpuPrepared {
    /// Compiles every launch of `segment`, for as long as that is wanted.
    pub fn new(gpu: &Gpu, pipelines: &Pipelines, segment: &Segment, is_wanted: Wanted<'_>) -> Result<WgpuPrepared> {
        let segment = &widened(segment);
        let parts = planned(segment, &gpu.shaping())?;
        let held = pipelines.warm(gpu, &parts.iter().flat_map(Part::dispatches).collect::<Vec<_>>(), is_wanted)?;
        let share = share(parts.iter().map(|part| part.dispatches().len()).sum());
        let (mut steps, mut words, mut scratch) = (Vec::new(), Vec::new(), 0);
        for part in &parts {
            match part {
                Part::Step(of, step) => steps.extend(made(*of, step)),
                Part::Launches(all) => {
                    let own = all.iter().filter(|p| p.workspace.is_none()).map(|p| p.plan.scratch).max();
                    scratch = scratch.max(own.unwrap_or(0));
                    steps.extend(make_pass(gpu, pipelines, (all, share), &mut words)?);
                }
            }
        }
        drop(held);
        Ok(WgpuPrepared {
            steps,
            scratch,
            slots: slots(segment),
            segment: segment.clone(),
            args: upload_args(gpu, &words)?,
            groups: Mutex::new(Recent::new(REMEMBERED)),
            merged: Mutex::new(Recent::new(REMEMBERED)),
        })
    }

    /// The text of each dispatch that `segment` becomes.
    pub fn texts(gpu: &Gpu, segment: &Segment) -> Result<Vec<String>> {
        let segment = &widened(segment);
        let parts = planned(segment, &gpu.shaping())?;
        Ok(parts.iter().flat_map(Part::dispatches).map(|dispatch| dispatch.text.clone()).collect())
    }

    /// Whether a pipeline of `segment` has to be compiled. What cannot be planned is refused without that.
    pub fn compiles(gpu: &Gpu, pipelines: &Pipelines, segment: &Segment) -> bool {
        let segment = &widened(segment);
        let parts = planned(segment, &gpu.shaping()).unwrap_or_default();
        parts.iter().flat_map(Part::dispatches).any(|dispatch| !pipelines.has(dispatch))
    }

    /// The bind groups for these buffers: those of the last few sets are kept as they are, and put together otherwise.
    pub fn groups(&self, gpu: &Gpu, buffers: &[&Raw], scratch: Option<&Raw>) -> Result<Arc<Groups>> {
        let key: Vec<u64> = buffers.iter().chain(&scratch).map(|raw| raw.id).collect();
        if let Some(known) = lock(&self.groups).get(&key) {
            count_all(&gpu.counts.bind_group_hits, known.len());
            return Ok(known);
        }
        let passes = self.steps.iter().filter_map(|s| if let Step::Pass(pass) = s { Some(pass) } else { None });
        let each = passes.flatten().map(|ready| self.group(gpu, ready, &ready.raws(buffers, scratch)));
        let all = Arc::new(each.collect::<Result<Groups>>()?);
        lock(&self.groups).add(key, all.clone());
        Ok(all)
    }

    /// The bind group of one dispatch, which sees few of a segment's buffers: where these change places from one submission to
    /// the next, it sees what it has seen long before all of them lie as they did.
    fn group(&self, gpu: &Gpu, ready: &Ready, raws: &[&Raw]) -> Result<wgpu::BindGroup> {
        let key: Vec<u64> = raws.iter().map(|raw| raw.id).collect();
        if let Some(known) = lock(&ready.groups).get(&key) {
            count(&gpu.counts.bind_group_hits);
            return Ok(known);
        }
        let made = gpu.guarded(|| self.bind(gpu, ready, raws))?;
        lock(&ready.groups).add(key, made.clone());
        Ok(made)
    }

    fn bind(&self, gpu: &Gpu, ready: &Ready, raws: &[&Raw]) -> wgpu::BindGroup {
        let part = |buffer, start: u64, bytes: u64| {
            let size = std::num::NonZeroU64::new(bytes);
            wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: start, size })
        };
        let args = self.args.as_ref().expect("a dispatch has arguments");
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: part(args, ready.args.0, ready.args.1) }];
        for ((binding, bound), raw) in (1u32..).zip(&ready.bound).zip(raws) {
            let resource = part(&raw.buffer, bound.range.start, bound.range.end - bound.range.start);
            entries.push(wgpu::BindGroupEntry { binding, resource });
        }
        count(&gpu.counts.bind_groups);
        let layout = &ready.pipeline.layout;
        gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
    }

    /// The segment for a binding in which some slots stand for one buffer; `slot[i]` is the first that stands for the
    /// buffer of slot `i`. wgpu refuses a buffer that is bound twice and written.
    pub fn merge(&self, gpu: &Gpu, pipelines: &Pipelines, slot: Vec<usize>) -> Result<Arc<WgpuPrepared>> {
        if let Some(known) = lock(&self.merged).get(&slot) {
            return Ok(known);
        }
        let steps = self.segment.steps.iter().map(|step| renamed(step, &slot)).collect();
        let made = Arc::new(WgpuPrepared::new(gpu, pipelines, &Segment { steps }, &|| true)?);
        lock(&self.merged).add(slot, made.clone());
        Ok(made)
    }
}

/// A step of the segment, or launches that nothing comes between, as dispatches.
enum Part<'a> {
    Launches(Vec<Planned>),
    Step(usize, &'a SegmentStep),
}

impl Part<'_> {
    fn dispatches(&self) -> Vec<&Dispatch> {
        match self {
            Part::Launches(all) => all.iter().flat_map(|p| &p.plan.dispatches).collect(),
            Part::Step(..) => Vec::new(),
        }
    }
}

fn planned<'a>(segment: &'a Segment, shaping: &Shaping) -> Result<Vec<Part<'a>>> {
    let launch = |step: &&'a SegmentStep| if let SegmentStep::Launch(l) = step { Some(&**l) } else { None };
    let steps = ordered(&segment.steps);
    let runs = steps.chunk_by(|(_, a), (_, b)| launch(a).is_some() && launch(b).is_some());
    let part = |run: &[(usize, &'a SegmentStep)]| match launch(&run[0].1) {
        Some(_) => {
            let launches: Vec<&Launch> = run.iter().filter_map(|(_, step)| launch(step)).collect();
            let mut all = plan_all(&launches, shaping)?;
            all.iter_mut().flat_map(|planned| &mut planned.launches).for_each(|at| *at = run[*at].0);
            Ok(Part::Launches(all))
        }
        None => Ok(Part::Step(run[0].0, run[0].1)),
    };
    runs.map(part).collect()
}

/// The segment with kernels that compute in types WGSL has.
fn widened(segment: &Segment) -> Segment {
    let step = |step: &SegmentStep| match step {
        SegmentStep::Launch(launch) => {
            let kernel = launch.kernel.widened().into_owned();
            SegmentStep::Launch(Box::new(Launch { kernel, ..(**launch).clone() }))
        }
        other => other.clone(),
    };
    Segment { steps: segment.steps.iter().map(step).collect() }
}

/// One pass, unless there is nothing to dispatch.
fn make_pass(
    gpu: &Gpu,
    pipelines: &Pipelines,
    (all, share): (&[Planned], usize),
    words: &mut Vec<u32>,
) -> Result<Option<Step>> {
    let mut pass = Vec::new();
    for planned in all {
        let launches: Arc<[usize]> = planned.launches.as_slice().into();
        for dispatch in &planned.plan.dispatches {
            pass.push(make_ready(gpu, pipelines, (planned.workspace, &launches, share), dispatch, words)?);
        }
    }
    Ok((!pass.is_empty()).then_some(Step::Pass(pass)))
}

fn make_ready(
    gpu: &Gpu,
    pipelines: &Pipelines,
    (workspace, launches, share): (Option<usize>, &Arc<[usize]>, usize),
    dispatch: &Dispatch,
    words: &mut Vec<u32>,
) -> Result<Ready> {
    let align = gpu.limits.min_uniform_buffer_offset_alignment as usize / 4;
    words.resize(words.len().next_multiple_of(align), 0);
    let start = words.len();
    words.extend_from_slice(&dispatch.args);
    words.resize(words.len().next_multiple_of(4), 0);
    let pipeline = pipelines.get(gpu, dispatch)?;
    count(&gpu.counts.pipelines_given);
    Ok(Ready {
        pipeline,
        grid: grid(dispatch, gpu.limits.max_compute_workgroups_per_dimension),
        launches: launches.clone(),
        bound: dispatch.bound.clone(),
        args: (4 * start as u64, 4 * (words.len() - start) as u64),
        workspace,
        groups: Mutex::new(Recent::within(&gpu.groups, share)),
    })
}

fn upload_args(gpu: &Gpu, words: &[u32]) -> Result<Option<wgpu::Buffer>> {
    if words.is_empty() {
        return Ok(None);
    }
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let buffer = gpu.create_buffer(bytes.len() as u64, wgpu::BufferUsages::UNIFORM, true)?;
    let view = buffer.slice(..bytes.len() as u64).get_mapped_range_mut();
    view.map_err(|e| breakeven_device::DeviceError::Driver(e.to_string()))?.copy_from_slice(bytes);
    buffer.unmap();
    Ok(Some(buffer))
}

fn grid(dispatch: &Dispatch, most: u32) -> [u32; 3] {
    match dispatch.members {
        1 => fold(dispatch.groups, most),
        members => [dispatch.groups as u32, members, 1],
    }
}

/// A grid of at least `groups` groups with no side over `most`, and as few too many as possible.
pub(crate) fn fold(groups: u64, most: u32) -> [u32; 3] {
    let rows = groups.div_ceil(u64::from(most));
    [groups.div_ceil(rows) as u32, rows as u32, 1]
}

/// Uploads moved to the front and downloads to the back where nothing else touches their slot in between, so that the
/// launches are one pass.
fn ordered(steps: &[SegmentStep]) -> Vec<(usize, &SegmentStep)> {
    let (mut first, mut middle, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (i, step) in steps.iter().enumerate() {
        let untouched = |slot: &usize, others: &[SegmentStep]| !others.iter().any(|s| touches(s, *slot));
        match step {
            SegmentStep::Upload { slot, .. } if untouched(slot, &steps[..i]) => first.push((i, step)),
            SegmentStep::Download { slot, .. } if untouched(slot, &steps[i + 1..]) => last.push((i, step)),
            _ => middle.push((i, step)),
        }
    }
    first.into_iter().chain(middle).chain(last).collect()
}

fn touches(step: &SegmentStep, slot: usize) -> bool {
    named(step).contains(&slot)
}

fn named(step: &SegmentStep) -> Vec<usize> {
    match step {
        SegmentStep::Upload { slot, .. } | SegmentStep::Download { slot, .. } => vec![*slot],
        SegmentStep::Copy { from, to, .. } => vec![*from, *to],
        SegmentStep::Launch(l) => l.inputs.iter().chain(&l.outputs).chain(&l.workspace).copied().collect(),
    }
}

fn slots(segment: &Segment) -> usize {
    segment.steps.iter().flat_map(named).map(|slot| slot + 1).max().unwrap_or(0)
}

fn renamed(step: &SegmentStep, slot: &[usize]) -> SegmentStep {
    let mut step = step.clone();
    match &mut step {
        SegmentStep::Upload { slot: own, .. } | SegmentStep::Download { slot: own, .. } => *own = slot[*own],
        SegmentStep::Copy { from, to, .. } => (*from, *to) = (slot[*from], slot[*to]),
        SegmentStep::Launch(l) => {
            let all = l.inputs.iter_mut().chain(&mut l.outputs).chain(&mut l.workspace);
            all.for_each(|own| *own = slot[*own]);
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_covers_its_groups_and_hardly_more() {
        for groups in [1, 65_535, 65_536, 70_001, 10_000_000] {
            let [x, y, z] = fold(groups, 65_535).map(u64::from);
            assert!(x <= 65_535 && y <= 65_535 && z == 1);
            assert!((groups..groups + y).contains(&(x * y)), "{groups}: {x} x {y}");
        }
    }

    #[test]
    fn a_segment_of_few_dispatches_keeps_many_groups_of_each_and_one_of_many_a_few() {
        assert_eq!([0, 1, 3, 200, 10_000].map(share), [2048, 2048, 682, 10, 8]);
    }

    #[test]
    fn uploads_go_first_and_downloads_last_unless_a_slot_is_used_in_between() {
        let upload = |slot| SegmentStep::Upload { upload: slot, slot };
        let download = |slot| SegmentStep::Download { slot, bytes: 4, read: slot };
        let copy = |from, to| SegmentStep::Copy { from, to, bytes: 4 };
        let steps = [upload(0), copy(0, 1), download(1), upload(2), copy(2, 3), upload(0), download(3)];
        let (places, order): (Vec<usize>, Vec<&SegmentStep>) = ordered(&steps).into_iter().unzip();
        assert_eq!(places, [0, 3, 1, 4, 5, 2, 6]);
        let want = [upload(0), upload(2), copy(0, 1), copy(2, 3), upload(0), download(1), download(3)];
        assert!(order.into_iter().eq(&want));
    }
}
