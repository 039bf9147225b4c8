//! What an adapter must get right before it is trusted.

use crate::WgpuDevice;

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTestVerdict {
    /// What was tried.
    pub name: &'static str,
    /// What went wrong, if something did.
    pub failure: Option<String>,
}

/// Asks an adapter all questions.
pub fn self_test(_: &WgpuDevice) -> Vec<SelfTestVerdict> {
    Vec::new()
}
