//! A scratch directory with repositories, and servers of them.

use std::path::Path;
use std::process::Stdio;

use super::http::SECRET;
use super::support::process::{Process, printed};
use super::support::server::Server;
use super::support::world::{World, scratch_dir};

/// A scratch directory. Git has no settings there but a name.
pub fn scratch() -> World {
    scratch_in(&std::env::temp_dir())
}

/// The same below this directory.
pub fn scratch_in(parent: &Path) -> World {
    let world = World::in_dir(scratch_dir(parent), "");
    std::fs::write(world.path("home/.gitconfig"), "[user]\nname = B\nemail = b@x\n").expect("a file");
    world
}

/// Makes a repository of this name unless it is there, and serves it.
pub fn serve(world: &World, name: &str, args: &[&str]) -> Server {
    world.git_init(name);
    let mut command = world.serve_command(name, args);
    let server = Server::start(command.env("DIBS_JWT_SECRET", SECRET));
    server.unwrap_or_else(|ended| panic!("the server did not start: {}{}", ended.stdout, ended.stderr))
}

/// The address that hooks use: the socket in the file system if there is one.
pub fn hook_url(server: &Server) -> String {
    let socket = server.record["socket"].as_str();
    socket.map_or_else(|| server.url().to_owned(), |path| format!("unix:{path}"))
}

/// Runs `git fast-import`.
pub fn import(world: &World, repository: &Path, script: &[u8]) {
    let mut command = world.command("git", repository);
    let mut git = Process::start(command.args(["fast-import", "--quiet"]).stdin(Stdio::piped())).expect("git starts");
    git.send(script);
    let output = git.finish();
    assert!(output.status.success(), "{}", printed(&output));
}
