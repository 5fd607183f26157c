//! `onramp doctor` alone, without building the rest of the program.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    doctor::run(&arguments)
}
