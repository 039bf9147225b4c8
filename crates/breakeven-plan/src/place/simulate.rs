//! The simulated run of a placement, on a clock for the host and one for each device, as the executor works: devices of
//! their own memory work on while the host goes on, and the host waits where it needs what they send.

use super::model::Model;
use crate::DeviceId;
use crate::route::{Move, Route};

/// Seconds from the start to the last result.
pub(crate) fn simulate(model: &Model, route: &Route) -> f64 {
    let mut clock = Clock::new(model);
    let mut rest = route.moves.as_slice();
    while let Some(first) = rest.first() {
        let copies = rest.iter().take_while(|next| matches!(next, Move::Copy { .. })).count();
        if copies > 0 {
            clock.copy(&rest[..copies]);
        } else {
            clock.go(*first);
        }
        rest = &rest[copies.max(1)..];
    }
    clock.end()
}

/// What a device is handed at once.
struct Stage {
    device: DeviceId,
    seconds: f64,
    /// Stages whose bytes it needs.
    after: Vec<usize>,
}

struct Clock<'a> {
    model: &'a Model,
    host: f64,
    /// When each device is done with what it was handed.
    free: Vec<f64>,
    open: Option<Stage>,
    /// For each stage that was handed over, when it ends, until it has been waited for.
    done: Vec<(DeviceId, Option<f64>)>,
}

impl<'a> Clock<'a> {
    fn new(model: &'a Model) -> Clock<'a> {
        Clock { model, host: 0.0, free: vec![0.0; model.space.len()], open: None, done: Vec::new() }
    }

    fn works_in_host_memory(&self, device: DeviceId) -> bool {
        self.model.space[device.0] == 0
    }

    /// The open stage of a device; another device's is handed over first.
    fn on(&mut self, device: DeviceId) -> &mut Stage {
        if self.open.as_ref().is_some_and(|open| open.device != device) {
            self.close();
        }
        self.open.get_or_insert_with(|| Stage { device, seconds: 0.0, after: Vec::new() })
    }

    fn go(&mut self, next: Move) {
        let (device, seconds) = match next {
            Move::Bind { .. } | Move::Copy { .. } => return,
            Move::Upload { value, device } => (device, self.model.values[value].copy[0][self.model.space[device.0]]),
            Move::Run { kernel, device } => (device, self.model.run[kernel][device.0].unwrap_or(0.0)),
            Move::Download { value, device, .. } => {
                (device, self.model.values[value].copy[self.model.space[device.0]][0])
            }
        };
        self.on(device).seconds += seconds;
    }

    /// Copies that follow each other: all are sent before the first is received.
    fn copy(&mut self, copies: &[Move]) {
        let mut sent = Vec::new();
        for next in copies {
            if let &Move::Copy { value, from, .. } = next {
                let seconds = self.model.values[value].copy[self.model.space[from.0]][0];
                self.on(from).seconds += seconds;
                // The number that the stage will have, which is handed over before the receiver's.
                sent.push(self.done.len());
            }
        }
        for (next, stage) in copies.iter().zip(sent) {
            if let &Move::Copy { value, from, to } = next {
                let seconds = self.model.values[value].copy[0][self.model.space[to.0]];
                let is_waited_for = !self.works_in_host_memory(from);
                let open = self.on(to);
                open.seconds += seconds;
                open.after.extend(is_waited_for.then_some(stage));
            }
        }
    }

    fn close(&mut self) {
        let Some(Stage { device, seconds, after }) = self.open.take() else { return };
        for stage in after {
            self.wait(stage);
        }
        self.host += self.model.fixed[device.0].0;
        let end = self.host.max(self.free[device.0]) + seconds;
        self.free[device.0] = end;
        if self.works_in_host_memory(device) {
            self.host = end;
        }
        self.done.push((device, Some(end)));
    }

    fn wait(&mut self, stage: usize) {
        let (device, end) = &mut self.done[stage];
        if let Some(end) = end.take() {
            self.host = self.host.max(end) + self.model.fixed[device.0].1;
        }
    }

    fn end(mut self) -> f64 {
        self.close();
        (0..self.done.len()).for_each(|stage| self.wait(stage));
        self.host
    }
}
