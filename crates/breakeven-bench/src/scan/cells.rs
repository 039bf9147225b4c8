//! Which cells a group has: its sizes, on all devices, in all its modes.

use breakeven_study::{AUTOMATIC, Cell, Mode, SCALAR};

use super::operation::Operation;
use super::scalar;

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
        let modes = modes.iter().filter(|mode| self.is_measured(device, **mode));
        modes.map(|mode| self.cell(size, device, *mode)).collect()
    }

    /// Copies and kernels by themselves are those of a device that the caller names and that is not the host; a plain loop knows nothing
    /// but the host's memory.
    fn is_measured(&self, device: &str, mode: Mode) -> bool {
        // Several calls in a row are said for data of the host alone.
        if self.operation.calls > 1 && mode != Mode::Host {
            return false;
        }
        match device {
            SCALAR => mode == Mode::Host && self.dtype == "f32" && scalar::find(self.operation.name).is_some(),
            "cpu" | AUTOMATIC => !matches!(mode, Mode::Copy | Mode::Kernel),
            _ => true,
        }
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

/// Whether a mode is about calls of engines that did not work yet, each of which is made for one call.
pub fn is_of_new_engines(mode: Mode) -> bool {
    matches!(mode, Mode::Cold | Mode::First)
}
