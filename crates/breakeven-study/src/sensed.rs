//! What the machine's own sensors said over a run: clocks and heat change numbers, so they stand beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::folder::Reading;

/// Clocks and temperatures over all readings of a run. What could not be read is null, and named in `absent`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensed {
    /// How often sensors were read.
    pub readings: u64,
    /// The lowest and the highest clock of a core, in hertz.
    pub cpu_hz: Option<[u64; 2]>,
    /// The hottest that a thermal zone of the machine was.
    pub celsius: Option<f64>,
    /// How often cores or packages lowered their clock from the first reading to the last, because of heat or power.
    pub throttlings: Option<u64>,
    /// GPUs whose drivers tell, by name.
    pub gpus: Vec<SensedGpu>,
    /// What the system has no file of, at no reading.
    pub absent: Vec<String>,
}

/// A GPU's sensors over a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SensedGpu {
    /// As the system calls it: "card0".
    pub name: String,
    /// Its lowest and its highest clock, in hertz.
    pub hz: Option<[u64; 2]>,
    /// The hottest of its sensors.
    pub celsius: Option<f64>,
}

impl Sensed {
    /// What `readings` come to, in the order in which they were taken.
    pub fn over(readings: &[Reading]) -> Sensed {
        let mut gpus = BTreeMap::<&str, SensedGpu>::new();
        for gpu in readings.iter().flat_map(|reading| &reading.gpus) {
            let sensed = gpus.entry(&gpu.name).or_default();
            sensed.name.clone_from(&gpu.name);
            sensed.hz = range(sensed.hz.into_iter().chain(gpu.hz.map(|hz| [hz, hz])));
            sensed.celsius = hottest(sensed.celsius.into_iter().chain(gpu.celsius));
        }
        let absent = readings.first().map(|first| first.absent.clone()).unwrap_or_default();
        let is_always = |what: &String| readings.iter().all(|reading| reading.absent.contains(what));
        Sensed {
            readings: readings.len() as u64,
            cpu_hz: range(readings.iter().filter_map(|reading| reading.cpu_hz)),
            celsius: hottest(readings.iter().filter_map(|reading| reading.celsius)),
            throttlings: throttlings(readings),
            gpus: gpus.into_values().collect(),
            absent: absent.into_iter().filter(is_always).collect(),
        }
    }

    /// In sentences: what was read, then what could not be, and why.
    pub fn said(&self) -> String {
        if self.readings == 0 {
            return "No clocks and temperatures are known.".into();
        }
        let cores = self.cpu_hz.map(|hz| format!("cores ran at {}", clocks(hz)));
        let heat = self.celsius.map(|hottest| format!("the machine was at {hottest:.1} °C at the hottest"));
        let lowered = self.throttlings.map(|times| format!("counts of lowered clocks rose by {times}"));
        let known = [cores, heat, lowered].into_iter().flatten().chain(self.gpus.iter().map(SensedGpu::said));
        let known = known.collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "no clock and no temperature could be read".into() } else { known };
        let times = if self.readings == 1 { "1 reading".into() } else { format!("{} readings", self.readings) };
        format!("In {times}: {known}.{}", self.not_read())
    }

    fn not_read(&self) -> String {
        if self.absent.is_empty() {
            return String::new();
        }
        let absent = self.absent.join(", ");
        format!(
            " Could not be read, since the system has no file of it (only Linux has such files, most virtual machines show no sensors, and NVIDIA's driver none of a GPU): {absent}."
        )
    }
}

impl SensedGpu {
    fn said(&self) -> String {
        let hz = self.hz.map_or("a clock that is not told".into(), clocks);
        let heat = self
            .celsius
            .map_or("its temperature is not told".into(), |hottest| format!("{hottest:.1} °C at the hottest"));
        format!("{} ran at {hz} ({heat})", self.name)
    }
}

/// The lowest and the highest of `ranges`.
fn range(ranges: impl Iterator<Item = [u64; 2]>) -> Option<[u64; 2]> {
    ranges.reduce(|[low, high], [lower, higher]| [low.min(lower), high.max(higher)])
}

fn hottest(celsius: impl Iterator<Item = f64>) -> Option<f64> {
    celsius.reduce(f64::max)
}

/// A machine that was started again between two readings counts from zero: nothing is known of that time.
fn throttlings(readings: &[Reading]) -> Option<u64> {
    let counts: Vec<u64> = readings.iter().filter_map(|reading| reading.throttlings).collect();
    (!counts.is_empty()).then(|| counts.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum())
}

/// "2.30 to 3.40 GHz".
fn clocks([low, high]: [u64; 2]) -> String {
    let gigahertz = |hz: u64| format!("{:.2}", hz as f64 / 1e9);
    let [low, high] = [low, high].map(gigahertz);
    if low == high { format!("{low} GHz") } else { format!("{low} to {high} GHz") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::GpuReading;

    fn reading(cpu_hz: Option<[u64; 2]>, celsius: Option<f64>, throttlings: Option<u64>) -> Reading {
        Reading { cpu_hz, throttlings, celsius, ..Reading::default() }
    }

    #[test]
    fn readings_come_to_their_extremes() {
        let gpu = |hz, celsius| GpuReading { name: "card0".into(), hz, celsius };
        let mut readings = [
            reading(Some([2_300_000_000, 3_000_000_000]), Some(45.5), Some(7)),
            reading(None, Some(61.0), Some(9)),
            reading(Some([2_500_000_000, 3_400_000_000]), None, Some(2)),
            reading(None, None, Some(3)),
        ];
        readings[0].gpus = vec![gpu(Some(345_000_000), None)];
        readings[1].gpus =
            vec![gpu(Some(1_980_000_000), Some(70.0)), GpuReading { name: "card1".into(), ..GpuReading::default() }];
        readings[0].absent = vec!["time of the cores".into()];
        let said = "In 4 readings: cores ran at 2.30 to 3.40 GHz, the machine was at 61.0 °C at the hottest, counts of lowered clocks rose by 3, \
                    card0 ran at 0.34 to 1.98 GHz (70.0 °C at the hottest), card1 ran at a clock that is not told (its temperature is not told).";
        // Started again before the third; and what was read once is not absent.
        assert_eq!(Sensed::over(&readings).said(), said);
    }

    #[test]
    fn what_was_not_read_is_told_with_the_reason() {
        let absent = vec!["thermal zones".to_string(), "sensors of a GPU (hwmon)".into()];
        let nothing = Reading { absent, ..Reading::default() };
        let said = "In 1 reading: no clock and no temperature could be read. Could not be read, since the system has no file of it (only Linux has such files, most virtual \
                    machines show no sensors, and NVIDIA's driver none of a GPU): thermal zones, sensors of a GPU (hwmon).";
        assert_eq!(Sensed::over(&[nothing]).said(), said);
        assert_eq!(Sensed::over(&[]).said(), "No clocks and temperatures are known.");
    }
}
