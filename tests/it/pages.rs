//! The pages at `/` and `/docs`, and the files that they load.

use std::io::Read;

use crate::http::Response;
use crate::world::World;

/// A file of a page, without a token.
fn file(world: &World, target: &str, headers: &[(&str, &str)]) -> Response {
    let answer = world.connect().call("GET", target, headers, b"").unwrap();
    assert!(answer.header("x-request-id").is_some());
    answer
}

/// The files that a page names, as paths of the server.
fn named_files(html: &str) -> Vec<String> {
    let mut all: Vec<String> =
        html.split('"').filter(|part| part.starts_with("assets/")).map(|part| format!("/{part}")).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn the_pages_load_only_their_own_files() {
    let world = World::new();
    for page in ["/", "/docs"] {
        let answer = file(&world, page, &[]);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")), "{page}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let html = String::from_utf8(answer.body.clone()).unwrap();
        let names = named_files(&html);
        assert!(names.len() > 2, "{html}");
        for target in names {
            let part = file(&world, &target, &[]);
            assert_eq!(part.status, 200, "{target}");
            let kind = match target.rsplit_once('.').unwrap().1 {
                "css" => "text/css; charset=utf-8",
                "svg" => "image/svg+xml",
                _ => "text/javascript; charset=utf-8",
            };
            assert_eq!(part.header("content-type"), Some(kind));
            assert_eq!(part.header("cache-control"), Some("public, max-age=31536000, immutable"));
            check_security(&target, &part);
        }
        check_security(page, &answer);
    }
}

fn check_security(target: &str, answer: &Response) {
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{target}");
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{target}");
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'self'; ") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(!text.contains("innerHTML =") && !text.contains("eval("), "{target}");
}

#[test]
fn files_are_compressed_for_browsers_that_accept_it() {
    let world = World::new();
    let plain = file(&world, "/", &[]);
    assert_eq!(plain.header("content-encoding"), None);
    let packed = file(&world, "/", &[("accept-encoding", "br, gzip;q=0.8")]);
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), (Some("gzip"), Some("accept-encoding")));
    assert!(packed.body.len() < plain.body.len());
    let path = world.path("page.gz");
    std::fs::write(&path, &packed.body).unwrap();
    let mut unpacked = Vec::new();
    let mut child =
        world.command("gzip", "").arg("-dc").arg(&path).stdout(std::process::Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_to_end(&mut unpacked).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(unpacked, plain.body);
    assert_eq!(file(&world, "/", &[("accept-encoding", "gzip;q=0")]).header("content-encoding"), None);
}

#[test]
fn a_page_that_has_not_changed_is_not_sent_again() {
    let world = World::new();
    let page = file(&world, "/", &[]);
    let tag = page.header("etag").unwrap().to_owned();
    let mut connection = world.connect();
    let request = crate::http::request("GET", "/", &[("if-none-match", &tag)], b"");
    connection.send(&request).unwrap();
    assert_eq!(connection.head().unwrap().status, 304);
}

#[test]
fn other_files_are_not_found() {
    let world = World::new();
    let html = String::from_utf8(file(&world, "/", &[]).body).unwrap();
    let directory = named_files(&html)[0].rsplit_once('/').unwrap().0.to_owned();
    for name in ["other.js", "index.html", "..%2fmod.rs", "vendored.json", "%00", ".."] {
        world.get(&format!("{directory}/{name}"), "").refused("NOT_FOUND");
    }
    world.get("/assets/0123456789abcdef/app.js", "").refused("NOT_FOUND");
}
