//! WGSL kernels on Vulkan, Metal, DX12, GLES and WebGPU.
