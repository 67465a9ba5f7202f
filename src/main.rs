//! The command `git-dibs`; everything it does is in the library.

/// A busy server makes and drops thousands of small things a second, on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    git_dibs::cli::main()
}
