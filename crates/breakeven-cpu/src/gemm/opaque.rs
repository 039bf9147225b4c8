//! Numbers and places of which the compiler must not know how they were made. They stay in registers, unlike those that went
//! through `black_box`.

/// A number of elements.
#[inline(always)]
pub(super) fn opaque_step(step: isize) -> isize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut step = step;
        // SAFETY: there are no instructions.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) step, options(pure, nomem, nostack, preserves_flags)) };
        step
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(step)
}

/// A place.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written there")]
pub(super) fn opaque_place<T>(place: *const T) -> *const T {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut place = place;
        // SAFETY: as above.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) place, options(pure, nomem, nostack, preserves_flags)) };
        place
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::hint::black_box(place)
}
