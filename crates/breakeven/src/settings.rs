//! What the environment can set. Nothing else in this library reads it.

use std::env;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Graphics, Precision, Result};

/// What may be set from outside the program, as plain data for [`Engine::builder`](crate::Engine::builder).
///
/// | variable | value | meaning |
/// |---|---|---|
/// | `BREAKEVEN_CACHE` | a folder, or `off` | where measurements and what GPU drivers compiled are kept; the user's cache folder else |
/// | `BREAKEVEN_DEVICES` | `cpu`, `gpu`, `software`, joined by commas | kinds of devices to use; the CPU is always there |
/// | `BREAKEVEN_BACKEND` | `vulkan`, `metal`, `dx12` or `gl` | through which interface GPUs are looked for: see [`Graphics`] |
/// | `BREAKEVEN_THREADS` | a number from 1 | threads of the CPU |
/// | `BREAKEVEN_DEADLINE_MS` | a number from 1 | longest wait for a device, where the call names none |
/// | `BREAKEVEN_PRECISION` | `highest`, `high`, `medium` | how exactly matrix products are computed, where the call says nothing: see [`Precision`] |
/// | `BREAKEVEN_LEARN` | `0` or `1` | whether repeated work is tried on another device now and then, and goes where it was seen to be faster: `1` else |
/// | `BREAKEVEN_DEBUG` | `0` or `1` | compute each operation in a kernel of its own, to find faults |
///
/// ```
/// use breakeven::Settings;
///
/// let settings = Settings { threads: std::num::NonZeroUsize::new(2), ..Settings::default() };
/// assert!(settings.gpus && !settings.software);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each stands for a variable of its own, and any may go with any")]
pub struct Settings {
    /// Where measurements are kept, and what drivers of GPUs compiled.
    pub cache: Cache,
    /// Whether GPUs are looked for.
    pub gpus: bool,
    /// Whether GPU drivers that compute on the host's processor are opened too. They are never chosen automatically.
    pub software: bool,
    /// Through which interface GPUs are looked for; where none is named, all are but OpenGL, and that where the others show none.
    pub graphics: Option<Graphics>,
    /// Threads of the CPU; as many as the machine has when none.
    pub threads: Option<NonZeroUsize>,
    /// Longest wait for a device where the call names none; predicted from the work when none.
    pub deadline: Option<Duration>,
    /// How exactly matrix products are computed, where the call says nothing.
    pub precision: Precision,
    /// Whether repeated work goes where it was seen to be faster: see [`EngineBuilder::learn`](crate::EngineBuilder::learn).
    pub learn: bool,
    /// Compute each operation in a kernel of its own, to find faults.
    pub debug: bool,
}

/// Where measurements are kept from one process to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// The user's cache folder; nowhere where there is no home.
    #[default]
    User,
    /// This folder.
    Folder(PathBuf),
    /// Nowhere.
    Off,
}

/// GPUs are looked for; software adapters are not opened.
impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cache: Cache::User,
            gpus: true,
            software: false,
            graphics: None,
            threads: None,
            deadline: None,
            precision: Precision::Highest,
            learn: true,
            debug: false,
        }
    }
}

impl Settings {
    /// What the environment of this process says; a variable that is not set or empty leaves the default. A value that
    /// is not understood is an error that names the variable.
    pub fn from_env() -> Result<Settings> {
        Settings::parse(|name| env::var_os(name))
    }

    fn parse(variable: impl Fn(&str) -> Option<OsString>) -> Result<Settings> {
        let mut settings = Settings::default();
        match variable("BREAKEVEN_CACHE").filter(|value| !value.is_empty()) {
            Some(value) if value == "off" => settings.cache = Cache::Off,
            Some(folder) => settings.cache = Cache::Folder(folder.into()),
            None => {}
        }
        if let Some(devices) = text("BREAKEVEN_DEVICES", &variable)? {
            (settings.gpus, settings.software) = kinds(&devices)?;
        }
        if let Some(backend) = text("BREAKEVEN_BACKEND", &variable)? {
            let parsed = backend.trim().parse();
            settings.graphics = Some(parsed.map_err(|names: String| wrong("BREAKEVEN_BACKEND", &backend, &names))?);
        }
        if let Some(threads) = count("BREAKEVEN_THREADS", &variable)? {
            settings.threads = NonZeroUsize::new(threads as usize);
        }
        settings.deadline = count("BREAKEVEN_DEADLINE_MS", &variable)?.map(Duration::from_millis);
        if let Some(precision) = text("BREAKEVEN_PRECISION", &variable)? {
            let parsed = precision.trim().parse();
            settings.precision = parsed.map_err(|names: String| wrong("BREAKEVEN_PRECISION", &precision, &names))?;
        }
        if let Some(learn) = text("BREAKEVEN_LEARN", &variable)? {
            settings.learn = switch("BREAKEVEN_LEARN", &learn)?;
        }
        if let Some(debug) = text("BREAKEVEN_DEBUG", &variable)? {
            settings.debug = switch("BREAKEVEN_DEBUG", &debug)?;
        }
        Ok(settings)
    }
}

fn text(name: &'static str, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<String>> {
    let value = variable(name).filter(|value| !value.is_empty());
    value.map(|v| v.into_string().map_err(|v| wrong(name, &v.to_string_lossy(), "text in UTF-8"))).transpose()
}

/// Whether GPUs and software adapters are used.
fn kinds(devices: &str) -> Result<(bool, bool)> {
    let (mut gpus, mut software) = (false, false);
    for kind in devices.split(',').map(str::trim) {
        match kind {
            "cpu" => {}
            "gpu" => gpus = true,
            "software" => software = true,
            other => return Err(wrong("BREAKEVEN_DEVICES", other, "cpu, gpu or software, joined by commas")),
        }
    }
    Ok((gpus, software))
}

fn count(name: &'static str, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<u64>> {
    let Some(value) = text(name, variable)? else { return Ok(None) };
    match value.trim().parse() {
        Ok(count @ 1..=0xffff_ffff) => Ok(Some(count)),
        _ => Err(wrong(name, &value, "a whole number from 1 to 4294967295")),
    }
}

fn switch(name: &'static str, value: &str) -> Result<bool> {
    match value.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(wrong(name, value, "0 or 1")),
    }
}

fn wrong(variable: &'static str, value: &str, expected: &str) -> Error {
    Error::Setting { variable, message: format!("'{value}' is not {expected}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn an_empty_environment_gives_the_defaults() {
        assert_eq!(parse(&[]).expect("nothing is wrong"), Settings::default());
        let empty = ["CACHE", "DEVICES", "BACKEND", "THREADS", "DEADLINE_MS", "PRECISION", "DEBUG"]
            .map(|name| format!("BREAKEVEN_{name}"));
        let empty: Vec<(&str, &str)> = empty.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(parse(&empty).expect("nothing is wrong"), Settings::default());
    }

    #[test]
    fn every_variable_is_read() {
        let settings = parse(&[
            ("BREAKEVEN_CACHE", "folder"),
            ("BREAKEVEN_DEVICES", "cpu, software"),
            ("BREAKEVEN_BACKEND", "gl"),
            ("BREAKEVEN_THREADS", "3"),
            ("BREAKEVEN_DEADLINE_MS", "1500"),
            ("BREAKEVEN_PRECISION", "medium"),
            ("BREAKEVEN_LEARN", "0"),
            ("BREAKEVEN_DEBUG", "1"),
        ]);
        let expected = Settings {
            cache: Cache::Folder("folder".into()),
            gpus: false,
            software: true,
            graphics: Some(Graphics::Gl),
            threads: NonZeroUsize::new(3),
            deadline: Some(Duration::from_millis(1500)),
            precision: Precision::Medium,
            learn: false,
            debug: true,
        };
        assert_eq!(settings.expect("nothing is wrong"), expected);
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        let cases = [
            ("BREAKEVEN_DEVICES", "cpu,tpu", "'tpu' is not cpu, gpu or software"),
            ("BREAKEVEN_BACKEND", "bogus", "'bogus' is not vulkan, metal, dx12 or gl"),
            ("BREAKEVEN_THREADS", "0", "'0' is not a whole number"),
            ("BREAKEVEN_THREADS", "-1", "'-1' is not a whole number"),
            ("BREAKEVEN_DEADLINE_MS", "NaN", "'NaN' is not a whole number"),
            ("BREAKEVEN_DEADLINE_MS", "99999999999999999999", "is not a whole number"),
            ("BREAKEVEN_PRECISION", "bf16", "'bf16' is not highest, high or medium"),
            ("BREAKEVEN_LEARN", "never", "'never' is not 0 or 1"),
            ("BREAKEVEN_DEBUG", "yes", "'yes' is not 0 or 1"),
        ];
        for (variable, value, expected) in cases {
            let message = parse(&[(variable, value)]).expect_err(value).to_string();
            assert!(message.starts_with(variable) && message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_cache_is_a_folder_or_off() {
        assert_eq!(parse(&[("BREAKEVEN_CACHE", "off")]).expect("nothing is wrong").cache, Cache::Off);
        assert_eq!(parse(&[("BREAKEVEN_CACHE", "")]).expect("nothing is wrong").cache, Cache::User);
    }
}
