//! The command `git-dibs`; everything it does is in the library. Only the allocator is chosen here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: ByCommand = ByCommand;

fn main() -> std::process::ExitCode {
    git_dibs::cli::main()
}

/// The allocator, chosen by the command before the first allocation.
///
/// A busy server allocates and frees thousands of small objects a second, on several threads: mimalloc does that faster. Its
/// first allocations prepare a heap that a short command never fills: a git hook has 318 page faults with the allocator of
/// the system, and 350 with mimalloc.
struct ByCommand;

/// Whether this process is a server. Written once, before the first allocation: memory must return to the allocator that it
/// came from.
static IS_SERVER: AtomicBool = AtomicBool::new(!CHOOSES);

/// Whether the C library passes the arguments to functions that run before `main`.
const CHOOSES: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod choose {
    use std::ffi::{CStr, c_char, c_int};
    use std::sync::atomic::Ordering;

    /// The C library calls every function of this section before `main`, and before Rust's runtime allocates.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static CHOOSE: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = choose;

    extern "C" fn choose(count: c_int, args: *const *const c_char, _: *const *const c_char) {
        if count < 2 {
            return;
        }
        // SAFETY: there are `count` arguments, each a string that ends with zero.
        let command = unsafe { CStr::from_ptr(*args.add(1)) };
        super::IS_SERVER.store(command.to_bytes() == b"serve", Ordering::Relaxed);
    }
}

// SAFETY: each call goes to one of two allocators, always to the same one within a process.
unsafe impl GlobalAlloc for ByCommand {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that either allocator needs; so in the functions below.
        unsafe { if is_server() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { if is_server() { MiMalloc.dealloc(at, layout) } else { System.dealloc(at, layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe { if is_server() { MiMalloc.alloc_zeroed(layout) } else { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe { if is_server() { MiMalloc.realloc(at, layout, size) } else { System.realloc(at, layout, size) } }
    }
}

#[inline(always)]
fn is_server() -> bool {
    IS_SERVER.load(Ordering::Relaxed)
}
