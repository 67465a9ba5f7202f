//! Certificates, users and passwords: between the nodes and etcd, and between the nodes.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::etcd::{Host, Setup};
use crate::world::{Run, World, certificate, has_etcd, has_etcdctl, until};

const PASSWORD: &str = "correct-horse";

fn reserve(path: &str) -> serde_json::Value {
    json!({ "filePaths": [path], "ttlSeconds": 300 })
}

/// Nodes, not started, and an etcd that wants TLS, a certificate of its clients, and a user.
fn guarded_world(nodes: usize) -> World {
    let mut etcd = Setup { is_tls: true, ..Setup::on_loopback(3) };
    for (flag, file) in [("cert-file", "etcd.pem"), ("key-file", "etcd.key"), ("trusted-ca-file", "ca-etcd.pem")] {
        etcd.extra.extend([format!("--{flag}"), certificate(file)]);
    }
    etcd.extra.push("--client-cert-auth".to_owned());
    let mut world = World::set_up(vec![Host::loopback(); nodes], etcd);
    let admin = |args: &[&str]| etcdctl(&world, args);
    admin(&["user", "add", "root:root"]);
    admin(&["user", "grant-role", "root", "root"]);
    admin(&["user", "add", &format!("dibs:{PASSWORD}")]);
    admin(&["user", "add", &format!("stranger:{PASSWORD}")]);
    admin(&["role", "add", "dibs"]);
    admin(&["role", "grant-permission", "--prefix=true", "dibs", "readwrite", "dibs/"]);
    admin(&["user", "grant-role", "dibs", "dibs"]);
    admin(&["auth", "enable"]);
    std::fs::write(world.path("password"), format!("{PASSWORD}\n")).unwrap();
    let password = world.path("password").display().to_string();
    world.add_etcd_args(&["--cluster-ca", &certificate("ca-etcd.pem")]);
    world.add_etcd_args(&["--cluster-cert", &certificate("etcd.pem"), "--cluster-key", &certificate("etcd.key")]);
    world.add_etcd_args(&["--cluster-user", "dibs", "--cluster-password-file", &password]);
    world
}

/// `etcdctl` as the user who may do everything.
fn etcdctl(world: &World, args: &[&str]) -> String {
    let [authority, own, key] = ["ca-etcd.pem", "etcd.pem", "etcd.key"].map(certificate);
    let first = ["--cacert", &authority, "--cert", &own, "--key", &key, "--user", "root:root"];
    world.etcdctl(&[&first[..], args].concat())
}

#[test]
fn nodes_sign_in_to_etcd_with_certificate_and_password() {
    if !has_etcdctl() {
        return;
    }
    let mut world = guarded_world(2);
    (0..2).for_each(|node| world.start_node(node));
    let leader = world.leader();
    for node in 0..2 {
        world.session("ana").post_at(node, "files/reserve", reserve(&format!("{node}"))).unwrap().ok();
    }
    assert_eq!(world.status().unwrap()["problems"], json!([]));
    // The user is gone while the nodes run.
    etcdctl(&world, &["user", "delete", "dibs"]);
    for node in [leader, 1 - leader] {
        world.readyz(node, 503, "etcd refuses access");
        world.logged(node, "etcd refuses access");
    }
    let status = world.status_text();
    assert!(status.contains("etcd refuses access") && !status.ends_with("exit 0"), "{status}");
    // Nothing is granted.
    let refused = world.session("bo").post_at(leader, "files/reserve", reserve("free"));
    assert!(refused.is_err() || refused.unwrap().status == 503);
    etcdctl(&world, &["user", "add", &format!("dibs:{PASSWORD}")]);
    etcdctl(&world, &["user", "grant-role", "dibs", "dibs"]);
    (0..2).for_each(|node| world.readyz(node, 200, "ready"));
    world.session("bo").post("files/reserve", reserve("0")).refused("RESOURCE_LOCKED");
    assert_eq!(world.reservations().len(), 2, "nothing was lost");
    // Said once, and not again and again; and never the password.
    for node in 0..2 {
        let log = world.node(node).log().text();
        assert!(log.matches("etcd refuses access").count() < 10, "{log}");
        assert!(!log.contains(PASSWORD), "{log}");
    }
}

#[test]
fn a_node_that_etcd_refuses_says_why() {
    if !has_etcdctl() {
        return;
    }
    let world = guarded_world(5);
    std::fs::write(world.path("wrong"), "incorrect").unwrap();
    let wrong = world.path("wrong").display().to_string();
    // What is left out or replaced, and what is said about it.
    let cases: [(&str, Option<&str>, &str); 5] = [
        ("--cluster-password-file", Some(&wrong), "etcd refuses access: etcdserver: authentication failed"),
        ("--cluster-user", Some("stranger"), "etcd refuses access: etcdserver: permission denied"),
        // The name in the certificate then counts as the user.
        ("--cluster-user", None, "etcd refuses access"),
        ("--cluster-ca", None, "invalid peer certificate"),
        ("--cluster-cert", None, "etcd did not answer"),
    ];
    std::thread::scope(|scope| {
        for (node, (flag, value, sentence)) in cases.into_iter().enumerate() {
            for command in [world.serve(node), world.cluster(&["status"])] {
                let world = &world;
                scope.spawn(move || {
                    let output = world.changed(&command, flag, value).run();
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(!output.status.success() && said.contains(sentence), "{flag} {value:?}: {said}");
                    assert!(!said.contains(PASSWORD) && !said.contains("incorrect"), "{said}");
                });
            }
        }
    });
}

#[test]
fn nodes_speak_tls_with_each_other() {
    if !has_etcd() {
        return;
    }
    let mut world = World::without_nodes(3);
    std::fs::copy(certificate("localhost.key"), world.path("key.pem")).unwrap();
    std::fs::set_permissions(world.path("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    let key = world.path("key.pem").display().to_string();
    world.add_node_args(&["--tls-cert", &certificate("localhost.pem"), "--tls-key", &key]);
    // Only this file counts, and not what the machine trusts.
    world.env("SSL_CERT_FILE", &certificate("ca.pem"));
    (0..2).for_each(|node| world.start_node(node));
    // One that trusts other authorities.
    let mut command = world.serve(2);
    command.env("SSL_CERT_FILE", certificate("ca-next.pem"));
    world.start_node_with(2, &mut command);
    let leader = world.leader();
    assert!(world.node(leader).url().starts_with("https://"));
    if leader == 2 {
        world.move_to(0);
    }
    let (leader, follower) = if world.leader() == 0 { (0, 1) } else { (1, 0) };
    for node in [leader, follower] {
        world.session("ana").post_at(node, "files/reserve", reserve(&format!("{node}"))).unwrap().ok();
    }
    let metrics = world.call_at(&world.at(follower), "GET", "/metrics", &world.reader(), None).unwrap();
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let forwarded = metrics.lines().find_map(|line| line.strip_prefix("dibs_cluster_forwarded_total ")).unwrap();
    assert_ne!(forwarded, "0", "the follower sent it to the leader");
    assert_eq!(world.reservations().len(), 2);

    world.readyz(2, 503, "cannot be reached");
    world.logged(2, "invalid peer certificate");
    let refused = world.session("bo").post_at(2, "files/reserve", reserve("x")).unwrap();
    assert_eq!(refused.status, 503, "{refused}");
    until("the status says it", || {
        let problems = world.status()?["problems"].to_string();
        problems.contains(&format!("node n2: node n{leader} cannot be reached at https://")).then_some(())
    });
}
