//! The `breakeven` command.
#![forbid(unsafe_code)]

fn main() {}
