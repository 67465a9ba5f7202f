//! The clients in `clients/`, each with its own tests against a real server: real Node, real Python, and `tsc` for the types
//! where `./test` could fetch it into `target/clients`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::support::process::printed;
use crate::world::{Run, World, fetched, skip};

/// The directory of the clients, and a file in it.
fn clients(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients").join(path)
}

/// Whether a program runs here.
fn has(program: &str, why: &str) -> bool {
    let runs = Command::new(program).arg("--version").try_run().is_ok_and(|output| output.status.success());
    if !runs {
        skip(&format!("{why}, because there is no {program}"));
    }
    runs
}

/// A program in the served repository, with the server's address and the tokens that the tests of both clients need.
fn command(world: &World, program: &str) -> Command {
    let mut command = world.command(program, "repo");
    command.env("DIBS_URL", world.url()).env("ADMIN_TOKEN", world.admin());
    command.env("DIBS_TOKEN", world.session("ana").token).env("BO_TOKEN", world.session("bo").token);
    command.env("PAUSED_TOKEN", world.session_with("carl", json!({ "feature": "F" })).token);
    command
}

#[test]
fn the_types_of_the_clients_are_those_of_the_document() {
    if !has("python3", "whether the types of the clients are current") {
        return;
    }
    let output = Command::new("python3").arg("-B").arg(clients("generate")).arg("--check").run();
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn the_typescript_client_works_with_node() {
    if !has("node", "the TypeScript client") {
        return;
    }
    let world = World::new();
    let output = command(&world, "node").arg(clients("typescript/test/client.test.js")).run();
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn the_typescript_client_has_the_types_it_declares() {
    let tsc = fetched("clients/node_modules/typescript/bin/tsc");
    if !tsc.exists() {
        return skip("the types of the TypeScript client, because tsc is not in target/clients");
    }
    let output = Command::new("node").arg(tsc).arg("-p").arg(clients("typescript")).run();
    assert!(output.status.success(), "{}", printed(&output));
}

#[test]
fn the_python_client_works_blocking_and_asynchronous() {
    if !has("python3", "the Python client") {
        return;
    }
    let world = World::new();
    let mut python = command(&world, "python3");
    python.env("PYTHONPATH", clients("python")).arg("-B").arg(clients("python/test/test_client.py"));
    let output = python.run();
    assert!(output.status.success(), "{}", printed(&output));
}
