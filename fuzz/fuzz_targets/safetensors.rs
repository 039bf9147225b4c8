//! Any bytes as weights.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| breakeven_fuzz::read::safetensors(bytes));
