//! Servers of one repository, called `repo`.

use std::path::PathBuf;
use std::process::Command;

pub use crate::support::process::{Run, until};
pub use crate::support::server::Ended;
pub use crate::support::session::Session;
pub use crate::support::world::{PROGRAM, World, fetched, secret_in, skip, text, time};

impl World {
    /// One repository and its server.
    pub fn new() -> World {
        World::with(&[])
    }

    /// The same with more arguments.
    pub fn with(args: &[&str]) -> World {
        let mut world = World::not_started();
        world.git_init("repo");
        world.args(args);
        world.start();
        world
    }

    /// One repository whose server has this configuration file.
    pub fn configured(config: &str) -> World {
        let mut world = World::not_started();
        world.git_init("repo");
        world.configure(config);
        world.start();
        world
    }

    /// A directory without a repository and without a server.
    pub fn not_started() -> World {
        World::empty("repo")
    }

    /// A server of two repositories with these names, and the directory of its data.
    pub fn of_two(names: [&str; 2]) -> (World, PathBuf) {
        let mut world = World::not_started();
        names.iter().for_each(|name| world.git_init(name));
        let data = world.path("data");
        let repos = names.map(|name| format!("{name}={}", world.path(name).display()));
        world.args(&["--repo", &repos[0], "--repo", &repos[1], "--data", data.to_str().unwrap()]);
        world.start();
        (world, data)
    }

    /// `git-dibs` with these arguments, in the repository.
    pub fn dibs(&self, args: &[&str]) -> Command {
        self.dibs_command(args)
    }
}
