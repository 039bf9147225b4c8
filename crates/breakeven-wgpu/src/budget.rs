//! How much memory the card has, what this process may have of it, and what it has: asked of the driver now and then.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use breakeven_device::DeviceKind;

use crate::errors::lock;
use crate::heaps::{Heap, Share, bounding_heap, heaps, main_heap};

/// How long an answer of the driver counts: one is a system call, and whoever asks may ask at each call.
const COUNTS: Duration = Duration::from_millis(100);

/// Bytes that a pool keeps waiting of the host's memory, or of a card's that does not tell how much it has.
const UNTOLD_POOL: u64 = 4 << 30;

/// Memory of a card, for one open device.
#[derive(Debug)]
pub(crate) struct Budget {
    kind: DeviceKind,
    /// Bytes of the heap that buffers lie in, where that is told. They do not change.
    heap_bytes: Option<u64>,
    /// The driver tells besides what this process may have of them.
    tells_shares: bool,
    told: Mutex<Told>,
    /// A wait ran out and nothing has ended since, or the device is lost: the driver may not answer either.
    is_paused: AtomicBool,
}

/// What the driver said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    /// When it was asked, or is being asked; `None` when it is to be asked in any case.
    at: Option<Duration>,
    share: Option<Share>,
    /// Bytes that the pool had then, live and waiting.
    reserved: u64,
    /// How often something was given back that the pool does not count.
    given_back: u64,
}

/// What the process may have of a card's memory, and has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub budget: Option<u64>,
    pub used: Option<u64>,
}

impl Budget {
    /// Of a device that has just been opened.
    pub fn of(device: &wgpu::Device, kind: DeviceKind) -> Budget {
        Budget::new(kind, bounding_heap(&heaps(device), kind))
    }

    fn new(kind: DeviceKind, heap: Option<Heap>) -> Budget {
        // What a software driver tells is the whole machine's.
        let share = heap.and_then(|heap| heap.share).filter(|_| kind != DeviceKind::Software);
        let told = Mutex::new(Told { at: Some(Duration::ZERO), share, reserved: 0, given_back: 0 });
        let (heap_bytes, tells_shares) = (heap.map(|heap| heap.bytes), share.is_some());
        Budget { kind, heap_bytes, tells_shares, told, is_paused: AtomicBool::new(false) }
    }

    /// Bytes that a card has, where that is told. Other kinds share the host's memory, and may get more of it than they say.
    pub fn card_bytes(&self) -> Option<u64> {
        self.heap_bytes.filter(|_| self.kind == DeviceKind::DiscreteGpu)
    }

    /// Bytes that a pool of the device keeps waiting where nobody said how many.
    pub fn pool_bytes(&self) -> u64 {
        pool_bytes(self.kind, self.heap_bytes)
    }

    /// What the process may have and has at `now`, while the pool has `reserved` bytes: what the driver said last when it was asked for the
    /// share, at most a tenth of a second ago, and what the pool took or gave back since. Where a driver tells a card's memory alone, that is
    /// the budget.
    pub fn at(&self, now: Duration, ask: impl FnOnce() -> Option<Share>, reserved: impl Fn() -> u64) -> Granted {
        if let Some(given_back) = self.is_due(now) {
            // Whoever asks meanwhile gets what was told before, and does not wait. What was made meanwhile is in the answer.
            let share = ask();
            let reserved = reserved();
            let mut told = lock(&self.told);
            let at = (told.given_back == given_back).then_some(now);
            *told = Told { at, share, reserved, ..*told };
        }
        let (told, reserved) = (*lock(&self.told), reserved());
        let budget = told.share.map(|share| share.budget).or_else(|| self.card_bytes());
        Granted { budget, used: told.share.map(|share| told.used(share, reserved)) }
    }

    /// Something was given back that the pool does not count: the driver is asked the next time.
    pub fn ask_again(&self) {
        let mut told = lock(&self.told);
        (told.at, told.given_back) = (None, told.given_back + 1);
    }

    /// A wait ran out, or the device is lost: the driver is not asked until something has ended.
    pub fn pause(&self) {
        self.is_paused.store(true, Relaxed);
    }

    /// Work has ended, or there is none.
    pub fn resume(&self) {
        self.is_paused.store(false, Relaxed);
    }

    /// How often something was given back, where the driver is to be asked now, which is counted.
    fn is_due(&self, now: Duration) -> Option<u64> {
        let mut told = lock(&self.told);
        let is_old = told.at.is_none_or(|at| now.saturating_sub(at) >= COUNTS);
        let is_due = self.tells_shares && !self.is_paused.load(Relaxed) && is_old;
        is_due.then(|| {
            told.at = Some(now);
            told.given_back
        })
    }
}

impl Told {
    /// Bytes that the process has once the pool has so many.
    fn used(&self, share: Share, reserved: u64) -> u64 {
        share.used.saturating_add(reserved).saturating_sub(self.reserved)
    }
}

/// What this process may have of the memory that buffers lie in, and has, where the driver tells.
pub(crate) fn share(device: &wgpu::Device) -> Option<Share> {
    main_heap(&heaps(device))?.share
}

/// A quarter of a card's own memory. What shares the host's memory keeps no more than where nothing is known.
fn pool_bytes(kind: DeviceKind, heap_bytes: Option<u64>) -> u64 {
    match (kind, heap_bytes.map(|bytes| bytes / 4)) {
        (DeviceKind::DiscreteGpu, Some(quarter)) => quarter,
        (_, Some(quarter)) => quarter.min(UNTOLD_POOL),
        (_, None) => UNTOLD_POOL,
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::{Backend, Device};

    use super::*;
    use crate::{WgpuBackend, WgpuOptions};

    const GIB: u64 = 1 << 30;

    fn heap(share: Option<Share>) -> Heap {
        Heap { bytes: 8 * GIB, is_local: true, share }
    }

    #[test]
    fn a_pool_keeps_a_quarter_of_a_card() {
        let check = |kind, card: Option<u64>, want| assert_eq!(pool_bytes(kind, card.map(|gib| gib * GIB)), want * GIB);
        check(DeviceKind::DiscreteGpu, Some(140), 35);
        check(DeviceKind::DiscreteGpu, Some(8), 2);
        check(DeviceKind::DiscreteGpu, None, 4);
        check(DeviceKind::IntegratedGpu, Some(8), 2);
        check(DeviceKind::Software, Some(1000), 4);
    }

    #[test]
    fn what_the_pool_takes_and_gives_back_counts_at_once() {
        let share = Share { budget: 100, used: 40 };
        let told = Told { at: None, share: Some(share), reserved: 30, given_back: 0 };
        assert_eq!([30, 50, 10, 0].map(|reserved| told.used(share, reserved)), [40, 60, 20, 10]);
        let told = Told { reserved: 90, ..told };
        assert_eq!(told.used(share, 0), 0, "a driver that counts otherwise");
    }

    #[test]
    fn a_driver_is_asked_now_and_then_and_not_while_it_may_hang() {
        let share = Some(Share { budget: 100, used: 40 });
        let mut budget = Budget::new(DeviceKind::DiscreteGpu, Some(heap(share)));
        let is_due = |budget: &Budget, ms| budget.is_due(Duration::from_millis(ms)).is_some();
        let asked = [0, 99, 100, 101, 199, 200].map(|ms| is_due(&budget, ms));
        assert_eq!(asked, [false, false, true, false, false, true]);
        budget.pause();
        assert!(!is_due(&budget, 1000));
        budget.resume();
        assert!(is_due(&budget, 1000) && !is_due(&budget, 1001));
        budget.ask_again();
        assert!(is_due(&budget, 1002) && !is_due(&budget, 1003), "what was given back is seen at once");
        budget.tells_shares = false;
        assert!(!is_due(&budget, 9000), "it has nothing more to tell");
    }

    #[test]
    fn a_budget_is_a_cards_memory_or_what_the_driver_grants() {
        let share = Share { budget: 6 * GIB, used: GIB };
        let check = |kind, told: Option<Share>, want: [Option<u64>; 3]| {
            let budget = Budget::new(kind, Some(heap(told)));
            let granted = budget.at(Duration::ZERO, || None, || 0);
            assert_eq!(
                [budget.card_bytes(), granted.budget, granted.used],
                want.map(|gib| gib.map(|gib| gib * GIB)),
                "{kind:?}"
            );
        };
        check(DeviceKind::DiscreteGpu, None, [Some(8), Some(8), None]);
        check(DeviceKind::DiscreteGpu, Some(share), [Some(8), Some(6), Some(1)]);
        check(DeviceKind::IntegratedGpu, None, [None; 3]);
        check(DeviceKind::IntegratedGpu, Some(share), [None, Some(6), Some(1)]);
        check(DeviceKind::Other, None, [None; 3]);
        check(DeviceKind::Software, Some(share), [None; 3]);
    }

    #[test]
    fn what_is_made_while_the_driver_is_asked_counts_once() {
        let share = |used| Some(Share { budget: 100, used });
        let budget = Budget::new(DeviceKind::DiscreteGpu, Some(heap(share(0))));
        let reserved = std::cell::Cell::new(30);
        let ask = || {
            reserved.set(50);
            share(60)
        };
        let used = |ask: &dyn Fn() -> Option<Share>| budget.at(COUNTS, ask, || reserved.get()).used;
        assert_eq!(used(&ask), Some(60));
        reserved.set(55);
        assert_eq!(used(&|| panic!("it was asked just now")), Some(65));
    }

    #[test]
    fn what_is_given_back_while_the_driver_is_asked_has_it_asked_again() {
        let share = |used| Some(Share { budget: 100, used });
        let budget = Budget::new(DeviceKind::DiscreteGpu, Some(heap(share(0))));
        let ask = || {
            budget.ask_again();
            share(60)
        };
        assert_eq!(budget.at(COUNTS, ask, || 0).used, Some(60));
        assert_eq!(budget.at(COUNTS, || share(20), || 0).used, Some(20));
    }

    /// The wait that ran out may have been told so after another thread had seen the work end.
    #[test]
    fn nothing_is_paused_once_no_work_is_on_its_way_but_for_a_device_that_is_lost() {
        let backend = WgpuBackend::new(WgpuOptions::default());
        let adapters = backend.software_adapters();
        assert!(!adapters.is_empty());
        for index in adapters {
            let device = backend.open_device(index).unwrap();
            let is_paused = || device.gpu().budget.is_paused.load(Relaxed);
            device.gpu().budget.pause();
            device.memory();
            assert!(!is_paused());
            device.destroy();
            device.memory();
            assert!(is_paused());
        }
    }

    /// On each adapter that is there. Where its driver tells what a process has, that grows by a buffer and shrinks without it; software
    /// drivers do not tell.
    #[test]
    fn drivers_tell_how_much_a_card_has() {
        let backend = WgpuBackend::new(WgpuOptions::default());
        let usable = backend.list().into_iter().enumerate().filter(|(_, info)| info.unusable.is_none());
        let mut asked = 0;
        for (index, info) in usable.filter(|(_, info)| info.backend == "wgpu/vulkan") {
            let device = backend.open_device(index).unwrap();
            let gpu = device.gpu();
            let heap = || main_heap(&heaps(&gpu.device)).unwrap_or_else(|| panic!("{info:?} has memory"));
            assert!(heap().bytes > 64 << 20, "{:?}", heap());
            assert_eq!(gpu.budget.heap_bytes, Some(heap().bytes));
            asked += 1;
            let before = heap().share.filter(|_| info.kind != DeviceKind::Software);
            let Some(before) = before else {
                assert_eq!((gpu.memory().budget, gpu.memory().used), (gpu.budget.card_bytes(), None));
                continue;
            };
            let (bytes, used) = (300 << 20, || share(&gpu.device).map_or(0, |share| share.used));
            let buffer = gpu.create_buffer(bytes, wgpu::BufferUsages::STORAGE, false).unwrap();
            let with = used();
            assert!(with >= before.used + bytes, "{before:?}, then {with}");
            buffer.destroy();
            gpu.device.poll(wgpu::PollType::Poll).unwrap();
            assert!(used() < with, "{before:?}, then {with}");
        }
        assert!(asked > 0, "there is no adapter that is reached through Vulkan");
    }
}
