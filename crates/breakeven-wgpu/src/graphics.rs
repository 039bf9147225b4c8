//! The interfaces through which adapters are reached.

use std::fmt;
use std::str::FromStr;

/// An interface of graphics drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Graphics {
    /// On Linux, Windows and Android.
    Vulkan,
    /// On Apple's systems.
    Metal,
    /// Direct3D 12, on Windows.
    Dx12,
    /// OpenGL and OpenGL ES. Some of its drivers cannot compute.
    Gl,
}

impl Graphics {
    /// All of them.
    pub const ALL: [Graphics; 4] = [Graphics::Vulkan, Graphics::Metal, Graphics::Dx12, Graphics::Gl];

    /// As settings and devices name it.
    pub fn name(self) -> &'static str {
        match self {
            Graphics::Vulkan => "vulkan",
            Graphics::Metal => "metal",
            Graphics::Dx12 => "dx12",
            Graphics::Gl => "gl",
        }
    }

    /// Whether this build for this system has it.
    pub fn is_here(self) -> bool {
        let is_apple = cfg!(target_vendor = "apple");
        match self {
            Graphics::Vulkan => cfg!(feature = "vulkan") && !is_apple,
            Graphics::Metal => cfg!(feature = "metal") && is_apple,
            Graphics::Dx12 => cfg!(feature = "dx12") && cfg!(windows),
            Graphics::Gl => cfg!(feature = "gles") && !is_apple,
        }
    }

    pub(crate) fn bits(self) -> wgpu::Backends {
        match self {
            Graphics::Vulkan => wgpu::Backends::VULKAN,
            Graphics::Metal => wgpu::Backends::METAL,
            Graphics::Dx12 => wgpu::Backends::DX12,
            Graphics::Gl => wgpu::Backends::GL,
        }
    }
}

/// Those of this build.
fn here() -> String {
    let names: Vec<&str> = Graphics::ALL.into_iter().filter(|g| g.is_here()).map(Graphics::name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// One that this build has; the error says which those are.
impl FromStr for Graphics {
    type Err = String;

    fn from_str(name: &str) -> Result<Graphics, String> {
        let found = Graphics::ALL.into_iter().find(|g| g.name() == name);
        match found {
            Some(graphics) if graphics.is_here() => Ok(graphics),
            Some(_) => Err(format!("in this build for this system, which has {}", here())),
            None => Err(format!("vulkan, metal, dx12 or gl, of which this build for this system has {}", here())),
        }
    }
}

impl fmt::Display for Graphics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_others_are_told_which_there_are() {
        for graphics in Graphics::ALL.into_iter().filter(|g| g.is_here()) {
            assert_eq!(graphics.name().parse(), Ok(graphics));
        }
        let error = "bogus".parse::<Graphics>().unwrap_err();
        assert!(error.starts_with("vulkan, metal, dx12 or gl, of which"), "{error}");
        for graphics in Graphics::ALL.into_iter().filter(|g| !g.is_here()) {
            let error = graphics.name().parse::<Graphics>().unwrap_err();
            assert!(error.starts_with("in this build"), "{error}");
        }
    }
}
