//! Segments: the part of a plan that one device runs without anybody else.

use breakeven_ir::Launch;

use crate::{Buffer, HostBytes, ReadCell, Recorder};

/// Steps in order. A device may overlap them as long as the result is that of running them one after the other.
///
/// Slots, uploads and reads are numbered; what they stand for is bound at [`crate::Device::submit`], so that a prepared
/// segment runs with other buffers as often as wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// What is done, in order.
    pub steps: Vec<SegmentStep>,
}

/// One step of a segment.
#[derive(Clone, Debug, PartialEq)]
pub enum SegmentStep {
    /// Host bytes into a slot, from its start.
    Upload {
        /// Index into [`Binding::uploads`].
        upload: usize,
        /// Index into [`Binding::buffers`].
        slot: usize,
    },
    /// Run a kernel; its slots index [`Binding::buffers`].
    Launch(Box<Launch>),
    /// One slot into another of the same device.
    Copy {
        /// Slot that is read from its start.
        from: usize,
        /// Slot that is written from its start.
        to: usize,
        /// How much.
        bytes: u64,
    },
    /// A slot's first bytes into host memory.
    Download {
        /// Index into [`Binding::buffers`].
        slot: usize,
        /// How much.
        bytes: u64,
        /// Index into [`Binding::reads`].
        read: usize,
    },
}

/// What the numbers of a segment stand for in one submission.
#[derive(Clone, Debug, Default)]
pub struct Binding {
    /// Device memory, by slot.
    pub buffers: Vec<Buffer>,
    /// Host bytes that uploads read.
    pub uploads: Vec<HostBytes>,
    /// Cells that downloads fill.
    pub reads: Vec<ReadCell>,
    /// Whether the device measures its kernels, where that costs something: a GPU's marks take about as long as a small kernel.
    pub timed: bool,
    /// Where the device writes when it did each step, where that is wanted: it measures its kernels one by one then, whatever that costs.
    pub recorder: Option<Recorder>,
}
