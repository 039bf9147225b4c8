//! SIMD kernels on threads.
