//! The suite on the simulated device, which is the reference itself: the suite's own bounds are right.

mod devices;

use breakeven_conformance::Tier;

breakeven_conformance::suite!(devices::sim(), Tier::Quick);
