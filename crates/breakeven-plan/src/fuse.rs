//! The first pass: a graph becomes kernels over values.

use breakeven_ir::Graph;

use crate::emit::emit;
use crate::group::group;
use crate::program::Program;
use crate::resolve::resolve;
use crate::{Home, Policy};

/// Folds views into layouts and lets operations share kernels.
pub fn fuse(graph: &Graph, home: &Home, policy: &Policy) -> Program {
    let resolved = resolve(graph, home);
    let groups = group(graph, &resolved, policy);
    emit(graph, &resolved, &groups)
}
