//! What the tools that print tables have in common.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

/// The exit code of the tool `name`: 2 if its arguments, or what they name, are of no use, and why on the standard error.
pub fn end<E: Display>(name: &str, worked: Result<(), E>) -> ExitCode {
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::from(2)
        }
    }
}

/// Prints; a reader who has seen enough is no failure.
///
/// # Errors
/// The standard output cannot be written.
pub fn say(text: &str) -> Result<(), String> {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}
