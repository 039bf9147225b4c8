//! Computes something on every adapter and leaves the process in the way that is asked for, while a thread still has the engine.

use std::time::Duration;

use breakeven::{Deadline, DeviceState, Engine};

fn main() -> breakeven::Result<()> {
    let mut args = std::env::args().skip(1);
    let (how, folder) = (args.next(), args.next());
    let builder = Engine::builder().software(true);
    let engine = match folder {
        Some(folder) => builder.cache_folder(folder),
        None => builder.no_cache(),
    };
    let engine = engine.build()?;
    engine.ready(Deadline::after(Duration::from_mins(5)))?;
    let devices = engine.devices();
    for device in devices.iter().filter(|device| device.state == DeviceState::Ready) {
        let sum = (engine.tensor(&[1.0, 2.0, 3.0], [3]) + 1.0).sum(0).on(device.id).item::<f32>()?;
        assert_eq!(sum, 9.0);
    }
    println!("{} devices computed it", devices.len());
    engine.notes().iter().for_each(|note| println!("note: {note}"));
    let held = engine.clone();
    std::thread::spawn(move || {
        let _engine = held;
        std::thread::sleep(Duration::from_mins(10));
    });
    match how.as_deref() {
        Some("exit") => std::process::exit(0),
        Some("panic") => panic!("as it was asked for"),
        _ => Ok(()),
    }
}
