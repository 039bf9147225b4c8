//! Which instructions the kernels use: chosen once, when a device is opened.

use std::fmt;

use fearless_simd::Level;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain scalar code, whatever the compiler makes of it.
    Scalar,
    /// What every processor of the architecture has: SSE2 on x86-64, NEON on aarch64.
    Baseline,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 as of Ice Lake.
    Avx512,
}

impl Isa {
    /// All of them, the least able first.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Baseline, Isa::Avx2, Isa::Avx512];

    /// The most able one that this machine has.
    pub fn best() -> Isa {
        Isa::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Isa::Scalar)
    }

    /// True when this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            Isa::Baseline => baseline(Level::new()),
            Isa::Avx2 => avx2(Level::new()),
            Isa::Avx512 => avx512(Level::new()),
        }
    }

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Baseline => "baseline",
            Isa::Avx2 => "avx2+fma",
            Isa::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn baseline(level: Level) -> bool {
    level.as_sse2().is_some()
}

#[cfg(target_arch = "aarch64")]
fn baseline(level: Level) -> bool {
    level.as_neon().is_some()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn baseline(_: Level) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
fn avx2(level: Level) -> bool {
    level.as_avx2().is_some()
}

#[cfg(target_arch = "x86_64")]
fn avx512(level: Level) -> bool {
    level.as_avx512().is_some()
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2(_: Level) -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512(_: Level) -> bool {
    false
}

/// Evaluates `$then` with `$token` bound to the proof that the instructions of `$isa` exist; `None` where they do not.
macro_rules! with_token {
    ($isa:expr, $token:ident => $then:expr) => {{
        let level = fearless_simd::Level::new();
        match $isa {
            $crate::Isa::Scalar => {
                let $token = fearless_simd::Fallback::new();
                Some($then)
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Baseline => level.as_sse2().map(|$token| $then),
            #[cfg(target_arch = "aarch64")]
            $crate::Isa::Baseline => level.as_neon().map(|$token| $then),
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 => level.as_avx2().map(|$token| $then),
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 => level.as_avx512().map(|$token| $then),
            #[allow(unreachable_patterns, reason = "every set is compiled for some architecture")]
            _ => None,
        }
    }};
}
pub(crate) use with_token;
