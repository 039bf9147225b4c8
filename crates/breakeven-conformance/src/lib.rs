//! The suite that every device must pass.
#![forbid(unsafe_code)]
