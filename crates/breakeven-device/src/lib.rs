//! How to talk to a machine: devices, buffers, tickets, deadlines, failures, pools and the simulated device.
#![forbid(unsafe_code)]
