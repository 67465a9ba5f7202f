//! HTTPS: the server with its own certificate, and commands and hooks that talk to it. The certificates are in
//! `fixtures/tls`, made by the script beside them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::json;

use crate::support::process::{LIMIT, printed};
use crate::world::{Ended, PROGRAM, Run, World, text, until};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tls").join(name)
}

/// Copies a certificate and its key to where the server reads them.
fn use_certificate(world: &World, name: &str) {
    fs::copy(fixture(&format!("{name}.pem")), world.path("cert.pem")).unwrap();
    fs::copy(fixture(&format!("{name}.key")), world.path("key.pem")).unwrap();
    fs::set_permissions(world.path("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
}

fn not_started(certificate: &str) -> World {
    let mut world = World::not_started();
    world.git_init("repo");
    use_certificate(&world, certificate);
    let files = ["cert.pem", "key.pem"].map(|name| world.path(name).to_str().unwrap().to_owned());
    world.args(&["--tls-cert", &files[0], "--tls-key", &files[1]]);
    world
}

fn served(certificate: &str) -> World {
    let mut world = not_started(certificate);
    world.start();
    world
}

fn port(world: &World) -> &str {
    world.url().strip_prefix("https://127.0.0.1:").expect("it speaks TLS")
}

/// Its address by name. In the repository, the address in its record would lead to the socket.
fn by_name(world: &World) -> String {
    format!("https://localhost:{}", port(world))
}

/// `git-dibs` with this server and this authority.
fn dibs(world: &World, url: &str, authority: Option<&str>, args: &[&str]) -> Output {
    let mut command = world.command(PROGRAM, if url.contains("localhost") { "repo" } else { "home" });
    command.args(args).env("DIBS_URL", url).env("DIBS_TOKEN", world.token(json!({ "sub": "ana", "name": "Ana" })));
    // Only this file counts, and not what the machine trusts.
    command.env("SSL_CERT_FILE", authority.map_or(world.path("none.pem"), fixture));
    command.run()
}

/// No browser, so no `Origin`: the server itself knows that it speaks TLS.
#[test]
fn the_cookie_of_a_server_with_a_certificate_is_secure() {
    let world = served("localhost");
    let answer = world.post("/api/login", "", json!({ "token": world.admin() }));
    let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("{answer}"));
    assert!(cookie.ends_with("; Secure"), "{cookie}");
}

#[test]
fn commands_and_hooks_speak_https() {
    let world = served("localhost");
    for url in [by_name(&world), world.url().to_owned()] {
        let reserved = dibs(&world, &url, Some("ca.pem"), &["reserve", "a", "b"]);
        assert!(reserved.status.success(), "{}", printed(&reserved));
        // Several pages and calls on one connection.
        let listed = dibs(&world, &url, Some("ca.pem"), &["status", "--json"]);
        assert!(String::from_utf8_lossy(&listed.stdout).contains("\"filePath\":\"b\""), "{}", printed(&listed));
        let run = dibs(&world, &url, Some("ca.pem"), &["run", "--", "true"]);
        assert!(!printed(&run).contains("could not be ended"), "{}", printed(&run));
    }
    assert_eq!(world.held(), ["ana a", "ana b"]);

    // A setting of the user instead of the variable; and a hook.
    let url = by_name(&world);
    world.git_in("repo", &["config", "--global", "dibs.caFile", fixture("ca.pem").to_str().unwrap()]);
    assert!(dibs(&world, &url, None, &["status"]).status.success());
    assert!(world.dibs(&["install"]).run().status.success());
    fs::write(world.path("repo/a"), "a").unwrap();
    world.git_in("repo", &["add", "a"]);
    let commit = |token: &str| {
        let mut commit = world.command("git", "repo");
        commit.args(["commit", "-m", "x"]).env("DIBS_URL", &url).env("DIBS_TOKEN", token).run()
    };
    let bo = commit(&world.token(json!({ "sub": "bo" })));
    assert!(!bo.status.success() && printed(&bo).contains("a: held by Ana (ana)"), "{}", printed(&bo));
    let ana = commit(&world.token(json!({ "sub": "ana" })));
    assert!(ana.status.success(), "{}", printed(&ana));
}

#[test]
fn a_server_with_a_bad_certificate_gets_no_token() {
    let world = served("localhost");
    let url = by_name(&world);
    let refused = |url: &str, authority: Option<&str>, why: &str| {
        let output = dibs(&world, url, authority, &["reserve", "a"]);
        let printed = printed(&output);
        assert!(output.status.code() == Some(5) && printed.contains(why), "{printed}");
        assert_eq!(printed.trim_end().lines().count(), 1, "{printed}");
    };
    let untrusted = "a certificate of an authority that this machine does not trust";
    refused(&url, Some("ca-next.pem"), untrusted);
    // An authority that only the repository names is not trusted.
    world.git_in("repo", &["config", "dibs.caFile", fixture("ca.pem").to_str().unwrap()]);
    refused(&url, Some("ca-next.pem"), untrusted);
    world.git_in("repo", &["config", "--global", "dibs.caFile", "/nowhere/ca.pem"]);
    refused(&url, Some("ca-next.pem"), "the CA file /nowhere/ca.pem (git config dibs.caFile) cannot be used");
    world.git_in("repo", &["config", "--global", "--unset", "dibs.caFile"]);
    refused(&url, None, "this system has no certificate authorities");

    let other = served("elsewhere");
    let url = by_name(&other);
    refused(&url, Some("ca.pem"), "a certificate for another name");
    let plain = World::new();
    let url = plain.url().replace("http://", "https://");
    refused(&url, Some("ca.pem"), "something that is not TLS");
    assert_eq!(world.held(), Vec::<String>::new());
}

#[test]
fn a_certificate_is_replaced_at_sighup_and_a_bad_one_is_not() {
    let world = served("localhost");
    let works_with = |authority: &str| dibs(&world, &by_name(&world), Some(authority), &["status"]).status.success();
    assert!(works_with("ca.pem") && !works_with("ca-next.pem"));
    use_certificate(&world, "renewed");
    world.signal(libc::SIGHUP);
    until("the new certificate is in use", || works_with("ca-next.pem").then_some(()));
    assert!(!works_with("ca.pem"));

    let broken: [(&str, &dyn Fn()); 4] = [
        ("is not a PEM file", &|| fs::write(world.path("cert.pem"), "-----BEGIN CERTIFICATE-----\n!").unwrap()),
        ("has no certificate in it", &|| fs::write(world.path("cert.pem"), "").unwrap()),
        ("cannot be used together", &|| {
            fs::copy(fixture("localhost.pem"), world.path("cert.pem")).unwrap();
        }),
        ("cannot read the TLS certificate", &|| fs::remove_file(world.path("cert.pem")).unwrap()),
    ];
    for (why, break_it) in broken {
        break_it();
        world.signal(libc::SIGHUP);
        until(why, || world.stderr().contains(why).then_some(()));
        let log = world.stderr();
        let line = log.lines().find(|line| line.contains(why)).unwrap();
        assert!(line.contains("the configuration was not reloaded"), "{log}");
        assert!(works_with("ca-next.pem"), "the certificate before it stays in use");
    }
}

#[test]
fn a_bad_certificate_or_key_is_refused_with_one_sentence() {
    let refused = |why: &str, break_it: &dyn Fn(&World)| {
        let mut world = not_started("localhost");
        break_it(&world);
        let check = |ended: Ended, text: &str| {
            assert!(ended.status.code() == Some(1) && text.contains(why), "{why}: {text}");
            assert_eq!(text.trim_end().lines().count(), 1, "{text}");
            assert!(!text.contains("PRIVATE"), "{text}");
        };
        let ended = world.start_and_fail();
        let text = ended.stderr.clone();
        check(ended, &text);
        world.args(&["--check-config"]);
        let ended = world.start_and_fail();
        let text = ended.stdout.clone();
        check(ended, &text);
    };
    let path = |world: &World, name: &str| world.path(name);
    refused("cannot read the TLS key", &|world| fs::remove_file(path(world, "key.pem")).unwrap());
    refused("has no private key in it", &|world| fs::write(path(world, "key.pem"), "x").unwrap());
    refused("has no private key in it", &|world| {
        fs::write(path(world, "key.pem"), fs::read(fixture("localhost.pem")).unwrap()).unwrap();
    });
    refused("cannot be used together", &|world| {
        fs::copy(fixture("renewed.key"), path(world, "key.pem")).unwrap();
        fs::set_permissions(path(world, "key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    });
    refused("can be read by other users (mode 0644); run: chmod 600", &|world| {
        fs::set_permissions(path(world, "key.pem"), PermissionsExt::from_mode(0o644)).unwrap();
    });
    refused("is not a file", &|world| {
        fs::remove_file(path(world, "cert.pem")).unwrap();
        fs::create_dir(path(world, "cert.pem")).unwrap();
    });

    let mut world = World::not_started();
    world.git_init("repo");
    world.args(&["--tls-cert", "/x"]);
    assert!(world.start_and_fail().stderr.contains("TLS needs both tls-cert and tls-key"));
}

#[test]
fn an_address_that_other_machines_can_reach_needs_tls() {
    let world = not_started("localhost");
    let files = ["cert.pem", "key.pem"].map(|name| world.path(name).to_str().unwrap().to_owned());
    let check = |more: &[&str]| {
        let listen = ["serve", "--check-config", "--listen", "0.0.0.0:0"];
        let output = world.command(PROGRAM, "repo").args(listen).args(more).run();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (passed, said) = check(&[]);
    assert!(!passed && said.contains("give a certificate with --tls-cert and --tls-key"), "{said}");
    assert!(check(&["--tls-cert", &files[0], "--tls-key", &files[1]]).0);
    assert!(check(&["--behind-proxy"]).0);
}

#[test]
fn a_client_that_does_not_finish_its_handshake_is_disconnected() {
    let mut world = not_started("localhost");
    world.configure("[limits]\nheader-seconds = 1\n");
    world.start();
    let address = format!("127.0.0.1:{}", port(&world));
    // The beginning of a handshake, something that is none, and nothing at all.
    for begin in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"GET / HTTP/1.1\r\n\r\n", b""] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(begin).unwrap();
        let mut reply = Vec::new();
        // Closed, or reset because of unread bytes; never kept open.
        match stream.read_to_end(&mut reply) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
        assert!(!reply.starts_with(b"HTTP"), "{reply:?}");
    }
    assert!(dibs(&world, &by_name(&world), Some("ca.pem"), &["status"]).status.success());
}

#[test]
fn tokens_name_the_public_address() {
    let mut world = not_started("localhost");
    world.args(&["--public-url", "https://dibs.example"]);
    world.start();
    let claims = |token: &str| -> serde_json::Value {
        jsonwebtoken::dangerous::insecure_decode_claims(token.trim().as_bytes()).unwrap()
    };
    let signed = String::from_utf8(world.dibs(&["token", "ana"]).run().stdout).unwrap();
    assert_eq!(claims(&signed)["url"], "https://dibs.example");
    assert_eq!(claims(&signed)["srv"], world.record()["id"]);
    let mut admin = crate::http::Connection::open(&world.unix()).unwrap();
    let mut create = |body: serde_json::Value| {
        let bearer = format!("Bearer {}", world.admin());
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        admin.call("POST", "/api/sessions", &headers, body.to_string().as_bytes()).unwrap()
    };
    let made = create(json!({})).expect(201);
    assert_eq!(claims(text(&made["token"]))["url"], "https://dibs.example");
    let made = create(json!({ "url": "http://10.0.0.1:3427" })).expect(201);
    assert_eq!(claims(text(&made["token"]))["url"], "http://10.0.0.1:3427");
    for bad in ["dibs.example", "https://", "https://a b", &format!("https://{}", "a".repeat(300))] {
        create(json!({ "url": bad })).refused("INVALID_REQUEST");
    }
    let mut bad = World::not_started();
    bad.git_init("repo");
    bad.args(&["--public-url", "dibs.example"]);
    assert!(bad.start_and_fail().stderr.contains("public-url is \"dibs.example\", which is not an address"));
}
