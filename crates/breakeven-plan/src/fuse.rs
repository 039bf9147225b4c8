//! The first pass: a graph becomes kernels over values.

use breakeven_ir::{DType, Graph};

use crate::emit::emit;
use crate::group::group;
use crate::program::Program;
use crate::resolve::resolve;
use crate::{Home, Policy};

/// Folds views into layouts and lets operations share kernels.
pub fn fuse(graph: &Graph, home: &Home, policy: &Policy) -> Program {
    fuse_types(graph, home, policy, &DType::ALL)
}

/// As [`fuse`]; operations over `everywhere` alone, the types that every device works on, share no kernel with others,
/// which would keep them off some devices.
pub(crate) fn fuse_types(graph: &Graph, home: &Home, policy: &Policy, everywhere: &[DType]) -> Program {
    let resolved = resolve(graph, home);
    let groups = group(graph, &resolved, policy, everywhere);
    emit(graph, &resolved, &groups)
}
