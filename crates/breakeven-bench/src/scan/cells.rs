//! Which cells a group has: its sizes, on all devices, in all its modes.

use breakeven_study::{AUTOMATIC, Cell, Mode};

use super::operation::Operation;

/// One operation on elements of one type.
pub struct Kind<'a> {
    /// What is computed.
    pub operation: &'a Operation,
    /// Type of its operands' elements: "f32".
    pub dtype: &'a str,
}

impl Kind<'_> {
    /// All cells of a size on the device of this name.
    pub fn cells(&self, size: usize, device: &str, modes: &[Mode]) -> Vec<Cell> {
        modes.iter().filter(|mode| is_measured(device, **mode)).map(|mode| self.cell(size, device, *mode)).collect()
    }

    fn cell(&self, size: usize, device: &str, mode: Mode) -> Cell {
        Cell {
            operation: self.operation.name.to_owned(),
            elements: self.operation.elements(size),
            shape: self.operation.shape(size),
            dtype: self.dtype.to_owned(),
            device: device.to_owned(),
            mode,
        }
    }
}

/// Copies and kernels by themselves are those of a device that the caller names and that is not the host.
fn is_measured(device: &str, mode: Mode) -> bool {
    let is_far = !["cpu", AUTOMATIC].contains(&device);
    is_far || !matches!(mode, Mode::Copy | Mode::Kernel)
}

/// Whether a mode is about calls of engines that did not work yet, each of which is made for one call.
pub fn is_of_new_engines(mode: Mode) -> bool {
    matches!(mode, Mode::Cold | Mode::First)
}
