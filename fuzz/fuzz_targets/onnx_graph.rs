//! Models that are put together from the operators there are, by the bytes of the fuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| breakeven_fuzz::read::onnx(&breakeven_fuzz::graph::model(bytes)));
