//! The load generator without the rest of the program: `cargo run --release -p bench --example bench -- help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    bench::run(&args)
}
