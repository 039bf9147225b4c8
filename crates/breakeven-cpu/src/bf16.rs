//! Which instructions multiply bf16: found once, when a product first may be made of them.

use std::fmt;

use crate::Isa;

/// Instructions for products of bf16 that are summed in f32. All of them take denormals for zeros, so that they are used only
/// for products of lower [`Precision`](breakeven_ir::Precision).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bf16Isa {
    /// None: such products are made as at the highest precision.
    Never,
    /// Dot products of pairs: AVX-512 BF16.
    Dots,
    /// Products of tiles: AMX.
    Tiles,
}

impl Bf16Isa {
    /// All of them, the least able first.
    pub const ALL: [Bf16Isa; 3] = [Bf16Isa::Never, Bf16Isa::Dots, Bf16Isa::Tiles];

    /// The most able one that this machine has beside `isa`.
    pub fn best(isa: Isa) -> Bf16Isa {
        Bf16Isa::ALL.into_iter().rev().find(|each| each.is_available(isa)).unwrap_or(Bf16Isa::Never)
    }

    /// True when this machine has it beside `isa`. For tiles the system is asked to let this process use them.
    pub fn is_available(self, isa: Isa) -> bool {
        match self {
            Bf16Isa::Never => true,
            Bf16Isa::Dots => isa == Isa::Avx512 && has_dots(),
            Bf16Isa::Tiles => isa == Isa::Avx512 && tiles::are_usable(),
        }
    }

    /// The instruction.
    pub const fn name(self) -> &'static str {
        match self {
            Bf16Isa::Never => "none",
            Bf16Isa::Dots => "vdpbf16ps",
            Bf16Isa::Tiles => "tdpbf16ps",
        }
    }

    /// What explanations say of products that are made of it.
    pub(crate) const fn products(self) -> &'static str {
        match self {
            Bf16Isa::Never => "products as at the highest precision",
            Bf16Isa::Dots => "bf16 products, vdpbf16ps",
            Bf16Isa::Tiles => "bf16 products, tdpbf16ps",
        }
    }
}

impl fmt::Display for Bf16Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn has_dots() -> bool {
    std::arch::is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_dots() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod tiles {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;

    /// `arch_prctl`, and the request to use a state that processes do not have from the start: that of tiles.
    const ARCH_PRCTL: usize = 158;
    const REQUEST_STATE: usize = 0x1023;
    const TILE_DATA: usize = 18;
    /// State of tiles that the system must keep: bits 17 and 18 of XCR0.
    const KEPT: u32 = 3 << 17;
    const TILE: u32 = 1 << 24;
    const BF16: u32 = 1 << 22;
    const XSAVE_IN_USE: u32 = 1 << 27;

    /// The processor has tiles and multiplies bf16 in them, in the usual number and size, and the system lets us.
    pub fn are_usable() -> bool {
        let has = |leaf, sub| __cpuid_count(leaf, sub);
        if has(0, 0).eax < 0x1D || has(1, 0).ecx & XSAVE_IN_USE == 0 {
            return false;
        }
        let features = has(7, 0).edx;
        if features & TILE == 0 || features & BF16 == 0 || kept_states() & KEPT != KEPT {
            return false;
        }
        // Eight tiles, rows of 64 bytes, 16 of them.
        let (palette, shape) = (has(0x1D, 1), has(0x1D, 1).ecx);
        palette.ebx == 8 << 16 | 64 && shape & 0xFFFF == 16 && is_granted()
    }

    /// What the system keeps of each thread, as bits of XCR0.
    fn kept_states() -> u32 {
        let low: u32;
        // SAFETY: the instruction exists where the system has switched XSAVE on, which was asked before.
        unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags)) };
        low
    }

    /// Asks for the state of tiles, for all threads of this process. To ask again changes nothing.
    fn is_granted() -> bool {
        let mut result = ARCH_PRCTL;
        // SAFETY: the call takes numbers alone, and changes nothing but what threads may use.
        unsafe {
            asm!(
                "syscall",
                inout("rax") result,
                in("rdi") REQUEST_STATE,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack)
            );
        }
        result == 0
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod tiles {
    /// Other systems are not asked.
    pub fn are_usable() -> bool {
        false
    }
}
