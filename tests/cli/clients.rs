//! Clients of the systems that git-dibs replaces, in `tests/compat`: written to each system's own protocol, and run with only
//! the address and the credential changed.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::world::skip;
use crate::world::{Run, Said, World};

/// Runs a client. It prints "ok" as its last line if all is as it should be.
fn run(program: &str, client: &str) {
    if Command::new(program).arg("--version").try_run().is_err() {
        return skip(&format!("the client {client}, because there is no {program}"));
    }
    let world = World::served();
    std::fs::create_dir(world.path("bin")).unwrap();
    world.dibs(["install-commands".as_ref(), world.path("bin").as_os_str()]).ok();
    world.dibs(["install"]).ok();
    let token = |id: &str, name: &str, feature: Option<&str>| {
        let mut claims = json!({ "sub": id, "name": name, "repo": "app" });
        if let Some(feature) = feature {
            claims["feature"] = feature.into();
        }
        world.token(claims)
    };
    let mut path = vec![world.path("bin"), Path::new(crate::world::PROGRAM).parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut command = world.command(program, "app");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat").join(client));
    command.env("PATH", std::env::join_paths(path).unwrap()).env("BASE_URL", world.url());
    command.env("ANA_TOKEN", token("ana", "Ana", None)).env("BO_TOKEN", token("bo", "Bo", Some("FEAT-123")));
    command.env("ADMIN_TOKEN", world.admin()).env("DIBS_URL", world.url()).env("WORK", world.dir());
    let said = Said::from(command.run());
    assert!(said.code == Some(0) && said.out.ends_with("ok\n"), "{client}: {}\n{}", said.out, said.err);
}

#[test]
fn the_worker_reserves_works_and_releases_all() {
    run("node", "worker.mjs");
}

#[test]
fn the_job_service_has_its_seven_routes() {
    run("python3", "jobs.py");
}

#[test]
fn the_lock_commands_work_in_a_script() {
    run("sh", "locks.sh");
}

#[test]
fn the_coordinator_answers_as_its_agents_expect() {
    if Command::new("curl").arg("--version").try_run().is_err() {
        return skip("the client coordinator.sh, because there is no curl");
    }
    run("sh", "coordinator.sh");
}

#[test]
fn a_work_package_is_taken_paused_and_finished() {
    run("sh", "package.sh");
}
