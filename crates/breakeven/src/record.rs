//! Why a device is trusted less than others: when it was lost, what it refused, and which kernels did that.

use std::time::Duration;

use breakeven_ir::Kernel;
use breakeven_plan::describe;

/// Openings, or refusals, that a device may have within [`WINDOW`].
const LIMIT: usize = 3;
/// How long they count.
const WINDOW: Duration = Duration::from_mins(1);

/// What one device did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// When it was opened again, by the clock of its backend.
    openings: Vec<Duration>,
    /// When it refused, by its own clock.
    refusals: Vec<Duration>,
    /// When its memory ran out last, by its own clock.
    ran_short: Option<Duration>,
    doubts: Vec<Doubt>,
    /// How often it was opened again.
    pub reopened: usize,
}

/// What a record says of the last minute, for a judgement of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Its memory ran out.
    pub ran_short: bool,
    /// It may not be opened once more.
    pub is_last_opening: bool,
    /// It may not refuse once more.
    pub is_last_refusal: bool,
    /// Kernels that are not run there again, whenever that was.
    pub banned: usize,
}

/// A kernel during which the device was lost.
#[derive(Clone, Debug)]
struct Doubt {
    kernel: Kernel,
    /// Losses in its own submission.
    alone: usize,
    /// Losses in a submission with others, since it last ran well on its own.
    shared: usize,
}

impl Record {
    /// Whether it may be opened once more now, which counts.
    pub fn may_open(&mut self, now: Duration) -> bool {
        may(&mut self.openings, now)
    }

    /// Whether it may go on after refusing now, which counts.
    pub fn may_refuse(&mut self, now: Duration) -> bool {
        may(&mut self.refusals, now)
    }

    /// Its memory ran out now.
    pub fn ran_short(&mut self, now: Duration) {
        self.ran_short = Some(now);
    }

    /// Another device stands in its place, with a clock of its own.
    pub fn is_reopened(&mut self) {
        self.refusals.clear();
        self.ran_short = None;
        self.reopened += 1;
    }

    /// What it says at this moment, by the clock of its backend and by its own, as far as there are any.
    pub fn signs(&self, backends: Option<Duration>, own: Option<Duration>) -> Signs {
        Signs {
            ran_short: count(self.ran_short.as_slice(), own) > 0,
            is_last_opening: count(&self.openings, backends) >= LIMIT,
            is_last_refusal: count(&self.refusals, own) >= LIMIT,
            banned: self.doubts.iter().filter(|doubt| doubt.is_proved()).count(),
        }
    }

    /// The device was lost during these kernels. A kernel is guilty at its second loss, if it was on its own once.
    pub fn lost_during(&mut self, kernels: &[Kernel]) {
        for kernel in kernels {
            let at = self.doubts.iter().position(|doubt| doubt.kernel == *kernel).unwrap_or_else(|| {
                self.doubts.push(Doubt { kernel: kernel.clone(), alone: 0, shared: 0 });
                self.doubts.len() - 1
            });
            let doubt = &mut self.doubts[at];
            if kernels.len() == 1 {
                doubt.alone += 1;
            } else {
                doubt.shared += 1;
            }
        }
    }

    /// These kernels ran well, each in a submission of its own as far as it is doubted.
    pub fn ran(&mut self, kernels: &[&Kernel]) {
        self.doubts.iter_mut().filter(|doubt| doubt.is_cleared_by(kernels)).for_each(|doubt| doubt.shared = 0);
        self.doubts.retain(|doubt| doubt.alone + doubt.shared > 0);
    }

    /// Whether it says anything else once these kernels ran well.
    pub fn is_changed_by(&self, kernels: &[&Kernel]) -> bool {
        self.doubts.iter().any(|doubt| doubt.is_cleared_by(kernels))
    }

    /// Some kernel is doubted.
    pub fn has_doubts(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// The device was lost during this kernel, alone or not: it gets a submission of its own.
    pub fn doubts(&self, kernel: &Kernel) -> bool {
        self.doubts.iter().any(|doubt| doubt.kernel == *kernel)
    }

    /// The device was lost twice during this kernel, which is not run there again.
    pub fn bans(&self, kernel: &Kernel) -> bool {
        self.doubts.iter().any(|doubt| doubt.is_proved() && doubt.kernel == *kernel)
    }

    /// The kernels that are not run there again, in words.
    pub fn quarantined(&self) -> Vec<String> {
        self.doubts.iter().filter(|doubt| doubt.is_proved()).map(|doubt| describe(&doubt.kernel)).collect()
    }

    /// All is forgotten but how often it was opened.
    pub fn forgive(&mut self) {
        *self = Record { reopened: self.reopened, ..Record::default() };
    }
}

impl Doubt {
    fn is_cleared_by(&self, kernels: &[&Kernel]) -> bool {
        self.shared > 0 && kernels.contains(&&self.kernel)
    }

    fn is_proved(&self) -> bool {
        self.alone > 0 && self.alone + self.shared > 1
    }
}

fn may(times: &mut Vec<Duration>, now: Duration) -> bool {
    times.retain(|time| is_recent(*time, now));
    let may = times.len() < LIMIT;
    if may {
        times.push(now);
    }
    may
}

fn count(times: &[Duration], now: Option<Duration>) -> usize {
    now.map_or(0, |now| times.iter().filter(|time| is_recent(**time, now)).count())
}

fn is_recent(time: Duration, now: Duration) -> bool {
    now.saturating_sub(time) < WINDOW
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Expr, Map};

    use super::*;

    fn kernel(n: usize) -> Kernel {
        Kernel::Map(Map::dense(Expr::identity(DType::F32), vec![], n))
    }

    #[test]
    fn three_openings_in_a_minute_and_no_more() {
        let mut record = Record::default();
        let seconds = [0, 10, 20, 59, 60, 69, 70];
        let may = seconds.map(|s| record.may_open(Duration::from_secs(s)));
        assert_eq!(may, [true, true, true, false, true, false, true]);
    }

    #[test]
    fn what_happened_is_a_sign_for_a_minute() {
        let mut record = Record::default();
        let signs = |record: &Record, s| record.signs(Some(Duration::from_secs(s)), Some(Duration::from_secs(s)));
        assert_eq!(signs(&record, 0), Signs::default());
        for second in [0, 10, 20] {
            assert!(!signs(&record, second).is_last_opening && !signs(&record, second).is_last_refusal);
            record.ran_short(Duration::from_secs(second));
            assert!(record.may_open(Duration::from_secs(second)) && record.may_refuse(Duration::from_secs(second)));
        }
        let all = Signs { ran_short: true, is_last_opening: true, is_last_refusal: true, banned: 0 };
        assert_eq!(signs(&record, 59), all);
        assert_eq!(signs(&record, 60), Signs { ran_short: true, ..Signs::default() });
        assert_eq!(signs(&record, 80), Signs::default());
        assert_eq!(record.signs(None, None), Signs::default(), "without a clock");
    }

    /// The clock of a device begins anew with the next one in its place.
    #[test]
    fn what_a_device_did_by_its_own_clock_goes_with_it() {
        let mut record = Record::default();
        record.ran_short(Duration::from_mins(15));
        (0..3).for_each(|_| assert!(record.may_refuse(Duration::from_mins(15))));
        record.is_reopened();
        assert_eq!((record.reopened, record.signs(None, Some(Duration::from_secs(1)))), (1, Signs::default()));
        assert!(record.may_refuse(Duration::from_secs(1)));
    }

    #[test]
    fn a_kernel_is_banned_when_it_was_on_its_own_and_no_other_with_it() {
        let (guilty, other) = (kernel(1), kernel(2));
        let mut record = Record::default();
        record.lost_during(&[guilty.clone(), other.clone()]);
        assert!(record.doubts(&guilty) && record.doubts(&other) && !record.bans(&guilty));
        assert!(record.is_changed_by(&[&other]));
        record.ran(&[&other]);
        assert!(!record.is_changed_by(&[&other]) && !record.doubts(&other));
        record.lost_during(std::slice::from_ref(&guilty));
        assert!(record.bans(&guilty) && !record.bans(&other));
        record.forgive();
        assert!(!record.doubts(&guilty));
    }

    #[test]
    fn losses_of_one_alone_are_not_forgotten_for_a_run_that_went_well() {
        let guilty = kernel(1);
        let mut record = Record::default();
        record.lost_during(std::slice::from_ref(&guilty));
        assert!(!record.bans(&guilty));
        record.ran(&[&guilty]);
        record.lost_during(std::slice::from_ref(&guilty));
        assert!(record.bans(&guilty));
        assert_eq!(record.quarantined(), ["copy [1]"]);
    }
}
