//! How much memory the card has, what this process may have of it, and what it has: asked of the driver now and then.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use breakeven_device::DeviceKind;

use crate::errors::lock;
use crate::heaps::{Share, heaps, main_heap};

/// How long an answer of the driver counts: one is a system call, and whoever asks may ask at each call.
const COUNTS: Duration = Duration::from_millis(100);

/// Bytes that a pool keeps waiting of the host's memory, or of a card's that does not tell how much it has.
const UNTOLD_POOL: u64 = 4 << 30;

/// Memory of a card, for one open device.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes of the heap that buffers lie in, where that is told. They do not change.
    bytes: Option<u64>,
    /// The driver tells besides what this process may have of them.
    is_shared: bool,
    told: Mutex<Told>,
    /// A wait ran out and nothing has ended since, or the device is lost: the driver may not answer either.
    is_paused: AtomicBool,
}

/// What the driver said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    /// When it was asked, or is being asked.
    at: Duration,
    share: Option<Share>,
    /// Bytes that the pool had then, live and waiting.
    reserved: u64,
}

impl Budget {
    /// Of a device that has just been opened.
    pub fn of(device: &wgpu::Device) -> Budget {
        let heap = main_heap(&heaps(device));
        let (bytes, share) = (heap.map(|heap| heap.bytes), heap.and_then(|heap| heap.share));
        let told = Mutex::new(Told { at: Duration::ZERO, share, reserved: 0 });
        Budget { bytes, is_shared: share.is_some(), told, is_paused: AtomicBool::new(false) }
    }

    /// Bytes that the card has, where that is told.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// What the process may have and has at `now`, while the pool has so many bytes: what the driver said last, at most a tenth of a second
    /// ago, and what the pool took or gave back since. Where a driver tells the card's memory alone, that is the budget.
    pub fn at(&self, device: &wgpu::Device, now: Duration, reserved: u64) -> (Option<u64>, Option<u64>) {
        if self.is_due(now) {
            // Whoever asks meanwhile gets what was told before, and does not wait.
            let share = main_heap(&heaps(device)).and_then(|heap| heap.share);
            *lock(&self.told) = Told { at: now, share, reserved };
        }
        let told = *lock(&self.told);
        (told.share.map(|share| share.budget).or(self.bytes), told.share.map(|share| told.used(share, reserved)))
    }

    /// A wait ran out, or the device is lost: the driver is not asked until something has ended.
    pub fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Relaxed);
    }

    /// Whether the driver is to be asked now, which is counted.
    fn is_due(&self, now: Duration) -> bool {
        let mut told = lock(&self.told);
        let is_due = self.is_shared && !self.is_paused.load(Relaxed) && now.saturating_sub(told.at) >= COUNTS;
        if is_due {
            told.at = now;
        }
        is_due
    }
}

impl Told {
    /// Bytes that the process has once the pool has so many.
    fn used(&self, share: Share, reserved: u64) -> u64 {
        share.used.saturating_add(reserved).saturating_sub(self.reserved)
    }
}

/// Bytes that a pool of the device keeps waiting where nobody said how many: a quarter of a card's own memory. What shares the host's
/// memory keeps no more than where nothing is known.
pub(crate) fn pool_bytes(kind: DeviceKind, card_bytes: Option<u64>) -> u64 {
    match (kind, card_bytes.map(|bytes| bytes / 4)) {
        (DeviceKind::DiscreteGpu, Some(quarter)) => quarter,
        (_, Some(quarter)) => quarter.min(UNTOLD_POOL),
        (_, None) => UNTOLD_POOL,
    }
}

#[cfg(test)]
mod tests {
    use breakeven_device::Backend;

    use super::*;
    use crate::{WgpuBackend, WgpuOptions};

    const GIB: u64 = 1 << 30;

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
        let told = Told { at: Duration::ZERO, share: Some(share), reserved: 30 };
        assert_eq!([30, 50, 10, 0].map(|reserved| told.used(share, reserved)), [40, 60, 20, 10]);
        let told = Told { reserved: 90, ..told };
        assert_eq!(told.used(share, 0), 0, "a driver that counts otherwise");
    }

    #[test]
    fn a_driver_is_asked_now_and_then_and_not_while_it_may_hang() {
        let share = Some(Share { budget: 100, used: 40 });
        let told = Mutex::new(Told { at: Duration::ZERO, share, reserved: 0 });
        let mut budget = Budget { bytes: Some(200), is_shared: true, told, is_paused: AtomicBool::new(false) };
        let is_due = |budget: &Budget, ms| budget.is_due(Duration::from_millis(ms));
        let asked = [0, 99, 100, 101, 199, 200].map(|ms| is_due(&budget, ms));
        assert_eq!(asked, [false, false, true, false, false, true]);
        budget.pause(true);
        assert!(!is_due(&budget, 1000));
        budget.pause(false);
        assert!(is_due(&budget, 1000));
        budget.is_shared = false;
        assert!(!is_due(&budget, 9000), "it has nothing more to tell");
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
            assert_eq!(gpu.budget.bytes(), Some(heap().bytes));
            asked += 1;
            let Some(before) = heap().share else {
                assert_eq!((gpu.memory().budget, gpu.memory().used), (Some(heap().bytes), None));
                continue;
            };
            let (bytes, used) = (300 << 20, || heap().share.map_or(0, |share| share.used));
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
