//! The rows of the example `bench`, for `cargo bench -p breakeven-cpu [-- threads filter instruction-set]`.

#[path = "../examples/bench.rs"]
mod bench;

fn main() -> breakeven_device::Result<()> {
    bench::main()
}
