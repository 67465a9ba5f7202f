//! The command `git-dibs`; everything it does is in the library.

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::ByCommand = allocator::ByCommand;

fn main() -> std::process::ExitCode {
    git_dibs::cli::main()
}
