//! What the machine's own sensors say, as Linux shows it under `/sys` and `/proc`: clocks, lowered clocks, temperatures, and what other work takes.

use std::fs;
use std::path::{Path, PathBuf};

use breakeven_study::folder::{GpuReading, Reading};

use super::contention::{Contention, Waits};

/// The files that there are.
pub struct Sensors {
    clocks: Vec<PathBuf>,
    throttlings: Vec<PathBuf>,
    zones: Vec<PathBuf>,
    gpus: Vec<Gpu>,
    contention: Contention,
}

struct Gpu {
    name: String,
    /// In hertz, or in megahertz where Intel's driver tells.
    clocks: Vec<(PathBuf, u64)>,
    temperatures: Vec<PathBuf>,
}

impl Sensors {
    /// Those of this machine.
    pub fn of_this_machine() -> Sensors {
        Sensors { contention: Contention::under(Path::new("/proc")), ..Sensors::under(Path::new("/sys")) }
    }

    /// Those under another folder than `/sys`; what `/proc` has is in its folder `proc`.
    pub fn under(root: &Path) -> Sensors {
        let cores: Vec<PathBuf> = entries(&root.join("devices/system/cpu"), "cpu").collect();
        let of_cores = |file: &str| existing(cores.iter().map(|core| core.join(file)));
        let counts = ["thermal_throttle/core_throttle_count", "thermal_throttle/package_throttle_count"];
        let cards = entries(&root.join("class/drm"), "card");
        Sensors {
            clocks: of_cores("cpufreq/scaling_cur_freq"),
            throttlings: counts.iter().flat_map(|file| of_cores(file)).collect(),
            zones: existing(entries(&root.join("class/thermal"), "thermal_zone").map(|zone| zone.join("temp"))),
            gpus: cards.map(|card| Gpu::of(&card)).filter(Gpu::tells).collect(),
            contention: Contention::under(&root.join("proc")),
        }
    }

    /// How often a clock was lowered so far because of heat or power; none where the system does not count.
    pub fn throttlings(&self) -> Option<u64> {
        let counts: Vec<u64> = self.throttlings.iter().filter_map(|file| number(file)).collect();
        (!counts.is_empty()).then(|| counts.iter().sum())
    }

    /// How long threads of this process waited for a core so far; none where the system does not count.
    pub fn waits(&self) -> Option<Waits> {
        self.contention.waits()
    }

    /// Everything that they say now, which is at the moment called `when`.
    pub fn read(&self, when: String) -> Reading {
        let clocks = || self.clocks.iter().filter_map(|file| number::<u64>(file)).map(|kilohertz| kilohertz * 1000);
        let cpu_hz = clocks().min().zip(clocks().max()).map(|(slowest, fastest)| [slowest, fastest]);
        let (throttlings, celsius) = (self.throttlings(), hottest(&self.zones));
        let processor = self.contention.processor_time();
        let known = [
            ("clocks of the processor (cpufreq)", cpu_hz.is_some()),
            ("counts of lowered clocks (thermal_throttle)", throttlings.is_some()),
            ("thermal zones", celsius.is_some()),
            ("sensors of a GPU (hwmon)", !self.gpus.is_empty()),
            ("time of the cores (/proc/stat)", processor.is_some()),
        ];
        let absent = known.iter().filter(|(_, is_known)| !is_known).map(|(what, _)| (*what).to_owned()).collect();
        let gpus = self.gpus.iter().map(Gpu::read).collect();
        Reading { when, cpu_hz, throttlings, celsius, processor, gpus, absent }
    }
}

impl Gpu {
    fn of(card: &Path) -> Gpu {
        let inputs = |start: &'static str| {
            let chips = entries(&card.join("device/hwmon"), "hwmon");
            chips.flat_map(move |chip| entries(&chip, start)).filter(|file| name(file).ends_with("_input"))
        };
        let clocks = inputs("freq").map(|file| (file, 1));
        let of_intel = existing([card.join("gt_cur_freq_mhz")].into_iter()).into_iter().map(|file| (file, 1_000_000));
        Gpu { name: name(card), clocks: clocks.chain(of_intel).collect(), temperatures: inputs("temp").collect() }
    }

    fn tells(&self) -> bool {
        !self.clocks.is_empty() || !self.temperatures.is_empty()
    }

    /// The first of its clocks is that of its cores.
    fn read(&self) -> GpuReading {
        let hz = self.clocks.first().and_then(|(file, unit)| Some(number::<u64>(file)? * unit));
        GpuReading { name: self.name.clone(), hz, celsius: hottest(&self.temperatures) }
    }
}

/// What is in `folder` and called `start` and a number, "cpu3" and not "cpufreq", in order; or a number and more, as sensors are.
fn entries(folder: &Path, start: &'static str) -> std::vec::IntoIter<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_one = |path: &PathBuf| {
        let name = name(path);
        let rest = name.strip_prefix(start).unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit()) && !rest.contains('-')
    };
    let mut found: Vec<PathBuf> = all.filter(is_one).collect();
    found.sort();
    found.into_iter()
}

fn existing(files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    files.filter(|file| file.exists()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn number<T: std::str::FromStr>(file: &Path) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Files of millidegrees.
fn hottest(files: &[PathBuf]) -> Option<f64> {
    files.iter().filter_map(|file| number::<i64>(file)).max().map(|thousandths| thousandths as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use breakeven_study::folder::ProcessorTime;

    use super::*;

    /// A folder that goes away with the test.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let root = std::env::temp_dir().join(format!("breakeven-sensors-{name}-{}", std::process::id()));
            for (file, text) in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn everything_that_there_is_is_read() {
        let tree = Tree::new(
            "full",
            &[
                ("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2300000\n"),
                ("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3400000\n"),
                ("devices/system/cpu/cpufreq/boost", "1\n"),
                ("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
                ("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "4\n"),
                ("class/thermal/thermal_zone0/temp", "45500\n"),
                ("class/thermal/thermal_zone1/temp", "-1000\n"),
                ("class/drm/card0-HDMI-A-1/status", "connected\n"),
                ("class/drm/card0/device/hwmon/hwmon2/temp1_input", "61000\n"),
                ("class/drm/card0/device/hwmon/hwmon2/freq1_input", "1980000000\n"),
                ("class/drm/card1/gt_cur_freq_mhz", "350\n"),
                ("proc/stat", "cpu 10 0 0 80 0 0 0 10 0 0\n"),
            ],
        );
        let gpu = |name: &str, hz, celsius| GpuReading { name: name.to_owned(), hz: Some(hz), celsius };
        let wanted = Reading {
            when: "now".to_owned(),
            cpu_hz: Some([2_300_000_000, 3_400_000_000]),
            throttlings: Some(7),
            celsius: Some(45.5),
            processor: Some(ProcessorTime { all_ticks: 100, stolen_ticks: 10 }),
            gpus: vec![gpu("card0", 1_980_000_000, Some(61.0)), gpu("card1", 350_000_000, None)],
            absent: vec![],
        };
        assert_eq!(Sensors::under(&tree.0).read("now".to_owned()), wanted);
    }

    #[test]
    fn what_has_no_file_is_said() {
        let tree = Tree::new("empty", &[("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "rubbish")]);
        let reading = Sensors::under(&tree.0).read("now".to_owned());
        assert_eq!((reading.cpu_hz, reading.throttlings, reading.celsius), (None, None, None));
        assert_eq!(reading.absent.len(), 5, "{:?}", reading.absent);
    }
}
