//! Whole computations on one device.

use std::collections::HashMap;
use std::sync::Arc;

use breakeven_plan::DeviceId;

use crate::Tensor;
use crate::tensor::{Inputs, Node, State};

impl Tensor {
    /// The same value, computed on `device` together with everything it still needs: what comparisons of devices are
    /// made with. [`Tensor::on`] leaves open where the rest is computed.
    #[must_use]
    pub fn wholly_on(&self, device: DeviceId) -> Tensor {
        // Originals are kept beside what was made of them, so that no other node can come to lie at their place.
        let mut pinned: HashMap<*const Node, (Tensor, Tensor)> = HashMap::new();
        // A node is met twice: first to visit what it needs, then to be made again from what was made of that.
        let mut stack = vec![(self.clone(), false)];
        while let Some((tensor, needs_met)) = stack.pop() {
            let place = Arc::as_ptr(&tensor.0);
            if pinned.contains_key(&place) {
                continue;
            }
            let state = tensor.0.state().clone();
            let State::Recipe(op, inputs) = state else {
                pinned.insert(place, (tensor.clone(), tensor));
                continue;
            };
            if needs_met {
                let inputs: Inputs = inputs.iter().map(|input| pinned[&Arc::as_ptr(&input.0)].1.clone()).collect();
                let made = tensor.with_state(State::Recipe(op, inputs), Some(device));
                pinned.insert(place, (tensor, made));
            } else {
                stack.push((tensor, true));
                stack.extend(inputs.into_iter().map(|input| (input, false)));
            }
        }
        pinned.remove(&Arc::as_ptr(&self.0)).expect("it was the first to be visited").1
    }
}
