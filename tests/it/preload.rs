//! Runs a real server on a system that fails or has another time, with the library in `preload.c`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::world::{Run, World, skip};

/// Preloads the library into the next server. Reports a skipped test if that is impossible here.
pub fn preload(world: &mut World, test: &str) -> bool {
    let library = library(test);
    library.iter().for_each(|library| world.env("LD_PRELOAD", library.to_str().unwrap()));
    library.is_some()
}

/// The library. Reports a skipped test if there is none.
pub fn library(test: &str) -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let library = LIBRARY.get_or_init(compiled).as_deref();
    if library.is_none() {
        skip(&format!("{test}, because nothing can be put before the C library here"));
    }
    library
}

/// Compiled once for all tests, into the build directory.
fn compiled() -> Option<PathBuf> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return None;
    }
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("preload.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/preload.c");
    // Under another name first: another run of the tests may have it loaded.
    let new = library.with_extension(std::process::id().to_string());
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", source, "-ldl", "-o"]).arg(&new);
    let done = compiler.try_run().ok()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::rename(new, &library).unwrap();
    Some(library)
}
