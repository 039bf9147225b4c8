//! Carries out a plan on devices: binds buffers, submits, waits, times, recovers.
#![forbid(unsafe_code)]
