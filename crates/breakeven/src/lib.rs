//! Tensor work where it is cheapest on the machine at hand.
#![forbid(unsafe_code)]
