//! What a call does when a device fails: it goes on without it, or says why it cannot.

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::DeviceError;
use breakeven_exec::ExecError;
use breakeven_plan::DeviceId;

use crate::devices::{Snapshot, Without};
use crate::failure::{Breakdown, Failure};
use crate::patience::Patience;
use crate::planned::{Planned, Turn};
use crate::recovery::Failed;
use crate::{Engine, Error, Result, Tensor};

/// One call, through all its attempts.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub patience: Patience,
    /// Devices that the caller named, which are never left for others.
    forced: Vec<DeviceId>,
    without: Without,
    /// Which devices failed on the way, in words.
    pub replanned: Vec<String>,
    /// What ran well, and how long it has taken so far.
    ran: Option<(Turn, Duration)>,
    /// The CPU could not serve until another plan was compiled, which is waited for from now on.
    pub waits: bool,
    room: Room,
    /// The first device that lacked memory, and how much.
    shortage: Option<Error>,
}

/// Whether plans are left out for want of memory.
#[derive(Debug)]
enum Room {
    /// They are.
    Counts,
    /// One was, and these were left out before it.
    Lacked(Without),
    /// Nothing else can do it: whether it fits is the driver's to say.
    Ignored,
}

/// Whoever reads what was computed may have had more to do for it.
impl Drop for Attempts {
    fn drop(&mut self) {
        self.ran.take().into_iter().for_each(|(turn, time)| turn.took(time));
    }
}

impl Attempts {
    /// For the value of these tensors.
    pub fn at(outputs: &[&Tensor], patience: Patience) -> Attempts {
        let forced = outputs.iter().filter_map(|tensor| tensor.0.pin).collect();
        Attempts {
            patience,
            forced,
            without: Without::default(),
            replanned: Vec::new(),
            ran: None,
            waits: false,
            room: Room::Counts,
            shortage: None,
        }
    }

    /// The turn, or the leading one, that there is room for.
    pub fn that_fits(
        &self,
        devices: &Snapshot,
        planned: &Arc<Planned>,
        turn: Turn,
    ) -> std::result::Result<Turn, Failure> {
        if matches!(self.room, Room::Ignored) { Ok(turn) } else { devices.with_room(planned, turn) }
    }

    /// A plan was carried out.
    pub fn ran(&mut self, turn: Turn, time: Duration) {
        self.ran = Some((turn, time));
    }

    /// Reading what it gave took longer still.
    pub fn took(&mut self, more: Duration) {
        self.ran.iter_mut().for_each(|(_, time)| *time += more);
    }

    /// The devices of the next attempt. There are fewer of them after each failure, so the attempts end.
    pub fn devices(&self, engine: &Engine) -> Snapshot {
        engine.0.devices.snapshot().without(self.without)
    }

    /// An attempt on `devices` failed. An error when that is the end of it.
    pub fn failed(&mut self, engine: &Engine, devices: &Snapshot, failure: Failure) -> Result<()> {
        let breakdown = match failure {
            Failure::Device(breakdown) => breakdown,
            Failure::Late(id, error) => return self.is_late(engine, id, error),
            Failure::Short(id, error) => {
                self.is_short(engine, id, &error);
                return Ok(());
            }
            Failure::Other(error) => return self.had_no_other_way(error),
        };
        let Breakdown { error, kernels, patience, is_optional } = *breakdown;
        let ExecError::Device { device: id, ref source, .. } = error else { return Err(devices.name(error)) };
        let is_timeout = matches!(source, DeviceError::Timeout { .. });
        let is_lost = matches!(source, DeviceError::Lost { .. });
        // What a device refuses that nobody asked it for does not count against it.
        if is_optional && (id == DeviceId::HOST || !is_timeout && !is_lost) {
            let name = &devices.entry(id).name;
            self.waits = true;
            self.replanned.push(format!("{name}: {source}; computed by another plan, and not tried there again"));
            return Ok(());
        }
        // The fault of a custom operation is the user's code's, and the CPU has nobody to take its place.
        if id == DeviceId::HOST || matches!(source, DeviceError::Custom { .. }) {
            return self.had_no_other_way(devices.name(error));
        }
        if let Some(device) = &devices.entry(id).device {
            let failed = Failed { id, device, error: source, kernels: &kernels, patience };
            engine.report_failure(&failed);
        }
        let is_out_of_time = self.patience.is_callers() && (!is_optional || self.patience.is_spent());
        if self.forced.contains(&id) || is_timeout && is_out_of_time {
            return Err(devices.name(error));
        }
        self.lacks(&devices.entry(id).name, source);
        if is_timeout || is_lost {
            self.without.use_of(id);
        } else {
            self.without.place_on(id);
        }
        self.replanned.push(format!("{}: {source}; planned again without it", devices.entry(id).name));
        Ok(())
    }

    /// A driver has not compiled in time. An error where the caller named the device or the deadline.
    fn is_late(&mut self, engine: &Engine, id: DeviceId, error: Error) -> Result<()> {
        let name = &engine.0.devices.names()[id.0];
        engine.0.devices.note(format!("{name}: its driver was still compiling when a call could not wait any longer"));
        if self.patience.is_callers() || self.forced.contains(&id) {
            return Err(error);
        }
        self.without.place_on(id);
        self.replanned.push(format!("{error}; planned again without it"));
        Ok(())
    }

    /// There is no room for a plan, which nobody insists on.
    fn is_short(&mut self, engine: &Engine, id: DeviceId, error: &DeviceError) {
        let name = &engine.0.devices.names()[id.0];
        engine.0.devices.note(format!("{name}: what there was no room for went to the other devices"));
        if matches!(self.room, Room::Counts) {
            self.room = Room::Lacked(self.without);
        }
        self.lacks(name, error);
        self.without.place_on(id);
        self.replanned.push(format!("{name}: {error}; planned again without it"));
    }

    fn lacks(&mut self, name: &str, error: &DeviceError) {
        if matches!(error, DeviceError::OutOfMemory { .. }) {
            let shortage = || Error::Device { device: name.to_owned(), source: error.clone() };
            self.shortage.get_or_insert_with(shortage);
        }
    }

    /// Nobody else can do what a device had no room for. A driver may have more than it says.
    fn had_no_other_way(&mut self, error: Error) -> Result<()> {
        let Room::Lacked(without) = self.room else {
            // That nobody else can do it says less than why the one that can did not.
            let shortage = self.shortage.take().filter(|_| matches!(error, Error::Placement(_)));
            return Err(shortage.unwrap_or(error));
        };
        (self.without, self.room) = (without, Room::Ignored);
        self.replanned.push(format!("{error}; tried where memory is short"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::Deadline;

    use super::*;

    fn failed(attempts: &mut Attempts, engine: &Engine, failure: Failure) -> Result<()> {
        attempts.failed(engine, &engine.0.devices.snapshot(), failure)
    }

    /// A driver may have more than it says, and where it has not, sizes are told.
    #[test]
    fn what_nobody_else_can_do_is_tried_where_memory_is_short() {
        let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
        let mut attempts = Attempts::at(&[], Patience::Callers(Deadline::after(Duration::from_secs(1))));
        let nobody = || Failure::Other(Error::Placement("nobody can do it".to_owned()));
        let short = DeviceError::OutOfMemory { wanted: 80, left: Some(20) };
        failed(&mut attempts, &engine, Failure::Short(DeviceId::HOST, short)).unwrap();
        assert!(matches!(attempts.room, Room::Lacked(_)));
        failed(&mut attempts, &engine, nobody()).unwrap();
        assert!(matches!(attempts.room, Room::Ignored));
        assert!(attempts.replanned[1].ends_with("tried where memory is short"), "{:?}", attempts.replanned);
        let error = failed(&mut attempts, &engine, nobody()).unwrap_err().to_string();
        assert!(error.contains("80 bytes were wanted and 20 are left"), "{error}");
        let error = failed(&mut attempts, &engine, nobody()).unwrap_err().to_string();
        assert_eq!(error, "nobody can do it");
    }
}
