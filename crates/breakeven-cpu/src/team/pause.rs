//! What a thread does between two looks at something that another one is about to change.

/// Counts the looks.
pub(super) struct Pause {
    pub tries: u32,
    /// From how many looks on the core is offered to whoever waits for it, every few microseconds.
    pub patience: u32,
}

impl Pause {
    /// Looks from one offer to the next: an offer that nobody takes lasts as long as about ten of them.
    pub const ROUND: u32 = 128;

    pub fn after(patience: u32) -> Pause {
        Pause { tries: 0, patience }
    }

    pub fn take(&mut self) {
        self.tries = self.tries.saturating_add(1);
        if self.tries > self.patience && self.tries.is_multiple_of(Pause::ROUND) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}
