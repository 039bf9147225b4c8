//! `docs/support.md` says what each device supports, and support only grows.

mod devices;

use std::path::PathBuf;

use breakeven_conformance::{Support, survey};
use breakeven_cpu::Isa;
use breakeven_device::Device;
use breakeven_wgpu::Limits;
use devices::{cpu, gpu, opengl, sim};

const WRITE: &str = "BREAKEVEN_WRITE_SUPPORT";

/// Columns of the table. A driver that this machine lacks keeps the column it had.
fn devices() -> Vec<(&'static str, Box<dyn Device>)> {
    let mut all: Vec<(&'static str, Box<dyn Device>)> = vec![
        ("CPU scalar", cpu(Isa::Scalar, 1)),
        ("CPU SIMD", cpu(Isa::best(), 1)),
        ("simulated", sim()),
        ("lavapipe", gpu("llvmpipe", Limits::Adapter)),
        ("SwiftShader", gpu("SwiftShader", Limits::Adapter)),
        ("SwiftShader at WebGPU limits", gpu("SwiftShader", Limits::WebGpuDefault)),
        ("Mesa's OpenGL", opengl()),
    ];
    let named = |column: &str, name: &str| match column {
        "lavapipe" | "Mesa's OpenGL" => name.contains("llvmpipe"),
        column if column.starts_with("SwiftShader") => name.contains("SwiftShader"),
        _ => true,
    };
    all.retain(|(column, device)| named(column, &device.info().name));
    all
}

#[test]
fn support_only_grows() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/support.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let old = Support::parse(&committed);
    let mut new = old.clone();
    for (column, device) in devices() {
        new.set(column, survey(&*device));
    }
    let lost = old.lost(&new);
    assert!(lost.is_empty(), "these were supported and are not any more: {}", lost.join(", "));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, new.to_string()).expect("docs can be written");
    } else {
        let hint =
            format!("docs/support.md is out of date: {WRITE}=1 cargo test -p breakeven-conformance --test support");
        assert!(new.to_string() == committed, "{hint}");
    }
}
