//! The command `git-dibs`; everything it does is in the library.

/// A busy server allocates and frees thousands of small objects a second, on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    git_dibs::cli::main()
}
