//! Any bytes as a model, which is run if it can be read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| breakeven_fuzz::read::onnx(bytes));
