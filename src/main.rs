//! The command `git-dibs`; everything it does is in the library.

fn main() -> std::process::ExitCode {
    git_dibs::cli::main()
}
