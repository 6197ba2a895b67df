//! What the C library would bring: the entry point, two system calls, and the memory functions that the compiler calls.

use core::arch::{asm, global_asm};
use core::fmt;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the entry point and the system calls are those of Linux on x86_64");

// The stack is 16-byte aligned at a call, and a zero frame pointer ends backtraces.
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call begin", "ud2");

/// The standard output.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written: isize;
            // SAFETY: write(1, start, length) reads `rest` only; the kernel clobbers rcx and r11.
            unsafe {
                asm!("syscall", inlateout("rax") 1_isize => written, in("rdi") 1, in("rsi") rest.as_ptr(),
                    in("rdx") rest.len(), out("rcx") _, out("r11") _, options(nostack, readonly));
            }
            let Ok(written) = usize::try_from(written) else { return Err(fmt::Error) };
            rest = rest.get(written..).ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    // SAFETY: exit_group(code) does not return.
    unsafe { asm!("syscall", in("rax") 231, in("rdi") code, options(noreturn, nostack)) }
}

// SAFETY, of all below: they are what their C namesakes are, and callers keep those contracts.

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        return unsafe { memcpy(to, from, n) };
    }
    // They overlap and the destination is behind: from the last byte to the first.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _, options(nostack));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for at in 0..n {
        // Volatile, so that the compiler does not turn this loop into a call of this function.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    unsafe { memcmp(a, b, n) }
}

// The libraries that come with the compiler are built to unwind and name these two; with `panic = "abort"` nobody calls them.

#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    exit(102)
}
