//! The core in a program that has neither std nor libc: see README.md.
#![no_std]
#![no_main]

#[cfg(feature = "alloc")]
extern crate alloc;

mod ground;
#[cfg(feature = "alloc")]
mod heap;
#[cfg(feature = "alloc")]
mod node;
mod system;

use core::fmt::Write;
use core::panic::PanicInfo;

use system::Console;

/// What a check that did not hold was about.
type Broken = &'static str;

fn check(holds: bool, what: Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(what) }
}

fn run() -> Result<(), Broken> {
    ground::run()?;
    let _ = writeln!(Console, "ground: ok");
    #[cfg(feature = "alloc")]
    {
        node::run()?;
        let _ = writeln!(Console, "node: ok, {} bytes allocated", heap::used());
    }
    Ok(())
}

/// Where the system begins, with the stack that it laid out.
#[unsafe(no_mangle)]
extern "C" fn begin() -> ! {
    let code = match run() {
        Ok(()) => 0,
        Err(what) => {
            let _ = writeln!(Console, "broken: {what}");
            1
        }
    };
    system::exit(code)
}

#[panic_handler]
fn panicked(why: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{why}");
    system::exit(101)
}
