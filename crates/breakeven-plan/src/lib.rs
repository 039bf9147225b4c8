//! Where and how to compute: profile, cost, fusion, placement, lowering, memory slots, explanation.
#![forbid(unsafe_code)]
