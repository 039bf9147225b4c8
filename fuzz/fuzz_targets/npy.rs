//! Any bytes as an array of numpy.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| breakeven_fuzz::read::npy(bytes));
