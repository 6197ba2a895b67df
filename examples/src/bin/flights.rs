//! A month of real flights through a cluster of processes: see [`examples::flights`].

use std::process::ExitCode;

fn main() -> ExitCode {
    examples::flights::main()
}
