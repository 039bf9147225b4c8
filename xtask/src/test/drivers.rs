//! The software Vulkan drivers that stand in for GPUs in tests: where they lie, what installs them, how tests find them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::install;
use super::step::Environment;

/// A software driver of a Linux distribution. The two differ in limits, subgroup size and alignment, which is their use.
struct Known {
    name: &'static str,
    package: &'static str,
    manifests: &'static [&'static str],
}

const KNOWN: [Known; 2] = [
    Known {
        name: "lavapipe",
        package: "mesa-vulkan-drivers",
        manifests: &[
            "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
            "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
            "/usr/share/vulkan/icd.d/lvp_icd.json",
        ],
    },
    Known {
        name: "SwiftShader",
        package: "chromium-common",
        manifests: &["/usr/lib/chromium/vk_swiftshader_icd.json"],
    },
];

/// Programs that tests start, with what they are asked to see whether they are here; Debian's packages are called like them.
const PROGRAMS: [(&str, &str); 2] = [("strace", "-V"), ("chromium", "--version")];

const LOADER_PACKAGE: &str = "libvulkan1";
/// Mesa's OpenGL on the processor: its libraries, and what brings them.
const OPENGL: [(&str, &str); 3] =
    [("libEGL.so.1", "libegl1"), ("libEGL_mesa.so.0", "libegl-mesa0"), ("dri/swrast_dri.so", "libgl1-mesa-dri")];
const LIBRARY_FOLDERS: [&str; 6] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64"];
const MANIFEST_FOLDERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];

/// What this machine offers for tests that need a GPU.
#[derive(Debug, Default, PartialEq)]
pub struct Drivers {
    /// Manifests of the software drivers that are here.
    software: Vec<PathBuf>,
    /// Debian packages that would bring what is missing.
    missing: Vec<&'static str>,
    has_loader: bool,
    /// Whether any other driver's manifest is here; it may still find no hardware.
    has_others: bool,
}

/// Finds the drivers, after installing those that are missing where that is allowed; fails if there is nothing to test on.
pub fn prepare(may_install: bool) -> Result<Drivers> {
    if !cfg!(target_os = "linux") {
        println!("not Linux: the tests use the adapters of this system");
        return Ok(Drivers::default());
    }
    let is_missing = |(program, question): &(&str, &str)| !install::succeeds(Command::new(program).arg(question));
    let programs: Vec<&str> = PROGRAMS.iter().filter(|known| is_missing(known)).map(|(program, _)| *program).collect();
    if may_install && !programs.is_empty() && install::may_use_apt() {
        install::apt_install(&programs);
    }
    let mut drivers = find(Path::exists, list_others);
    if !drivers.missing.is_empty() && may_install && install::may_use_apt() {
        install::apt_install(&drivers.missing);
        drivers = find(Path::exists, list_others);
    }
    println!("{}", drivers.describe());
    if !drivers.is_usable() {
        bail!("there is no Vulkan driver to test GPU code on, and such tests are never skipped");
    }
    Ok(drivers)
}

fn find(exists: impl Fn(&Path) -> bool, has_others: impl Fn() -> bool) -> Drivers {
    let mut drivers = Drivers { has_others: has_others(), ..Drivers::default() };
    for known in &KNOWN {
        match known.manifests.iter().map(Path::new).find(|path| exists(path)) {
            Some(path) => drivers.software.push(path.into()),
            None => drivers.missing.push(known.package),
        }
    }
    let has_library = |name: &str| LIBRARY_FOLDERS.iter().any(|folder| exists(&Path::new(folder).join(name)));
    drivers.has_loader = has_library("libvulkan.so.1");
    if !drivers.has_loader {
        drivers.missing.push(LOADER_PACKAGE);
    }
    let opengl = OPENGL.iter().filter(|(library, _)| !has_library(library)).map(|(_, package)| *package);
    drivers.missing.extend(opengl);
    drivers
}

fn list_others() -> bool {
    let manifests = MANIFEST_FOLDERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    manifests.into_iter().any(|entry| !entry.file_name().to_string_lossy().starts_with("lvp_"))
}

impl Drivers {
    fn is_usable(&self) -> bool {
        self.has_loader && (!self.software.is_empty() || self.has_others)
    }

    fn describe(&self) -> String {
        let found = self.software.iter().map(|path| format!("found {}", path.display()));
        let names: Vec<&str> = KNOWN.iter().filter(|k| self.missing.contains(&k.package)).map(|k| k.name).collect();
        let lacking = format!(
            "not found: {}; on Debian, as root: apt-get install --no-install-recommends {}",
            if names.is_empty() { "the Vulkan loader or OpenGL".into() } else { names.join(", ") },
            self.missing.join(" ")
        );
        found.chain((!self.missing.is_empty()).then_some(lacking)).collect::<Vec<_>>().join("\n")
    }

    /// What makes the Vulkan loader list these drivers: alone, or besides the system's with `all_adapters`.
    /// `BREAKEVEN_TEST_ADAPTERS` is how many adapters the tests must find at least.
    pub fn environment(&self, all_adapters: bool) -> Environment {
        let mut environment = vec![("BREAKEVEN_TEST_ADAPTERS", self.software.len().max(1).to_string())];
        if all_adapters {
            // The loader lists a driver twice that is both added and the system's.
            let added: Vec<&PathBuf> = self.software.iter().filter(|path| !is_listed_anyway(path)).collect();
            environment.extend(joined(&added).map(|list| ("VK_ADD_DRIVER_FILES", list)));
        } else if let Some(list) = joined(&self.software) {
            // Loaders before 1.3.207 know the second name only.
            environment.extend([("VK_DRIVER_FILES", list.clone()), ("VK_ICD_FILENAMES", list)]);
        }
        environment
    }
}

fn is_listed_anyway(manifest: &Path) -> bool {
    MANIFEST_FOLDERS.iter().any(|folder| manifest.starts_with(folder))
}

/// The paths as the loader reads them; none if there are none.
fn joined(paths: &[impl AsRef<OsStr>]) -> Option<String> {
    let list = std::env::join_paths(paths).ok()?.into_string().ok()?;
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAVAPIPE: &str = KNOWN[0].manifests[0];
    const SWIFTSHADER: &str = KNOWN[1].manifests[0];
    const LOADER: &str = "/usr/lib64/libvulkan.so.1";
    const EGL: [&str; 3] = ["/usr/lib64/libEGL.so.1", "/usr/lib64/libEGL_mesa.so.0", "/usr/lib64/dri/swrast_dri.so"];

    fn on_machine_with(files: &[&str], has_others: bool) -> Drivers {
        find(|path| files.iter().any(|file| Path::new(file) == path), || has_others)
    }

    #[test]
    fn a_complete_machine_lists_both_drivers() {
        let drivers = on_machine_with(&[LAVAPIPE, SWIFTSHADER, LOADER, EGL[0], EGL[1], EGL[2]], false);
        assert!(drivers.is_usable() && drivers.missing.is_empty());
        let list = format!("{LAVAPIPE}:{SWIFTSHADER}");
        assert!(drivers.environment(false).contains(&("VK_DRIVER_FILES", list)));
        assert!(drivers.environment(true).contains(&("VK_ADD_DRIVER_FILES", SWIFTSHADER.into())));
        assert!(drivers.environment(true).contains(&("BREAKEVEN_TEST_ADAPTERS", "2".into())));
    }

    #[test]
    fn a_bare_machine_is_refused_and_told_what_to_install() {
        let drivers = on_machine_with(&[], false);
        assert!(!drivers.is_usable());
        assert!(
            drivers
                .describe()
                .ends_with("mesa-vulkan-drivers chromium-common libvulkan1 libegl1 libegl-mesa0 libgl1-mesa-dri"),
            "{}",
            drivers.describe()
        );
        assert!(!on_machine_with(&[LAVAPIPE], false).is_usable(), "no loader");
        assert!(!on_machine_with(&[LOADER], false).is_usable(), "no driver");
    }

    #[test]
    fn a_machine_with_real_drivers_only_uses_them() {
        let drivers = on_machine_with(&[LOADER], true);
        assert!(drivers.is_usable());
        assert_eq!(drivers.environment(false), [("BREAKEVEN_TEST_ADAPTERS", "1".to_string())]);
    }
}
