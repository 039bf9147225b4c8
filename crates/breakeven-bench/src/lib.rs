//! Timing, statistics and reports.
#![forbid(unsafe_code)]
