//! What to compute: dtypes, shapes, views, the table of operations, graphs, kernels and their reference meaning.
#![forbid(unsafe_code)]
