//! The holder's push through a server's hook: over ssh and over http the receiving side sees nothing of the pusher's
//! environment, and knows the session by its announcement alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use git_dibs::wire::Mode;
use serde_json::json;

use crate::support::session::Session;
use crate::world::{World, said, script};

/// A clone with our hooks, `origin.git` with the server's hook, and a server that neither of them runs.
struct Setup {
    world: World,
    server: World,
}

impl Setup {
    fn new() -> Setup {
        let (world, server) = (World::with_hooks(false), World::new().served());
        world.install("origin.git", &["--server"]);
        let reader = server.session_with("reader", json!({ "scope": "read" }));
        std::fs::write(world.path("origin.git/reader"), &reader.token).unwrap();
        let url = server.url();
        world.shell("origin.git", &format!("git config dibs.url {url}; git config dibs.tokenFile $PWD/reader"));
        Setup { world, server }
    }

    /// The holder's push passes, another session's does not, and the holder's own passes only once for each announcement.
    fn try_pushes(&self, url: &str, variables: &[(&str, &str)]) {
        let (ana, bo) = (self.server.session("ana"), self.server.session("bo"));
        ana.hold_as("b", Mode::Exclusive);
        let run = |session: &Session<'_>, act: &str| {
            let variables = [&self.server.variables(Some(session))[..], variables].concat();
            let output = self.world.try_shell("work", act, &variables);
            (output.status.success(), said(&output))
        };
        let (passed, text) = run(&ana, &format!("echo 1 >>b; git commit -qam one; git push -q {url} main"));
        assert!(passed && !text.contains("git-dibs:"), "{text}");
        let (passed, text) = run(&ana, &format!("git push -q --no-verify {url} main:other"));
        assert!(passed, "what is known already is no change: {text}");
        self.world.shell("work", "echo 2 >>b; git commit -qam two");
        let (passed, text) = run(&bo, &format!("git push -q --no-verify {url} main"));
        assert!(!passed && text.contains("remote:   b: held by ana"), "another session: {text}");
        let (passed, text) = run(&ana, &format!("git push -q --no-verify {url} main"));
        assert!(!passed && text.contains("remote:   b: held by ana"), "not announced: {text}");
        let (passed, text) = run(&ana, &format!("git push -q {url} main"));
        assert!(passed && !text.contains("git-dibs:"), "{text}");
        let tip = self.world.shell("origin.git", "git rev-parse main");
        assert_eq!(tip, self.world.shell("work", "git rev-parse main"), "it arrived");
    }
}

/// Not a real sshd: a program in the place of `ssh` that runs the command of the far side here, as sshd would: by the shell,
/// in a clean environment.
#[test]
fn the_holders_push_over_ssh_needs_no_token_on_the_far_side() {
    let setup = Setup::new();
    let stand_in = setup.world.path("bin/ssh-stand-in");
    // Git calls it with options, the host, and the command as one word.
    script(
        &stand_in,
        "#!/bin/sh\nfor command; do :; done\nexec env -i PATH=\"$PATH\" HOME=\"$HOME\" sh -c \"$command\"\n",
    );
    let url = format!("ssh://far.invalid{}", setup.world.path("origin.git").display());
    setup.try_pushes(&url, &[("GIT_SSH_COMMAND", stand_in.to_str().unwrap())]);
}

#[test]
fn the_holders_push_over_http_needs_no_token_on_the_far_side() {
    let setup = Setup::new();
    let helper = setup.world.shell("work", "git --exec-path");
    if !Path::new(helper.trim()).join("git-remote-http").exists() {
        eprintln!("skipped: this git cannot speak http");
        return;
    }
    setup.world.shell("origin.git", "git config http.receivepack true");
    let address = serve_over_http(setup.world.path(""));
    setup.try_pushes(&format!("http://{address}/origin.git"), &[("no_proxy", "127.0.0.1")]);
}

/// Serves the repositories in a directory with `git http-backend`, until the test ends. Returns the address.
fn serve_over_http(dir: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that disconnects half way is its own problem.
            let _ = stream.and_then(|stream| answer(&stream, &dir));
        }
    });
    address
}

/// Answers one request by the CGI program of git.
fn answer(stream: &TcpStream, dir: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git");
    backend.arg("http-backend").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    backend.env("HOME", dir).env("GIT_PROJECT_ROOT", dir).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", &method).env("PATH_INFO", path).env("QUERY_STRING", query);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                length = value.parse().unwrap_or(0);
                backend.env("CONTENT_LENGTH", value);
            }
            "content-type" => drop(backend.env("CONTENT_TYPE", value)),
            "content-encoding" => drop(backend.env("HTTP_CONTENT_ENCODING", value)),
            "git-protocol" => drop(backend.env("GIT_PROTOCOL", value)),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut child = backend.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().expect("piped").write_all(&body)?;
    let output = child.wait_with_output()?.stdout;
    let status = output.strip_prefix(b"Status: ").map(|rest| rest.split(|&b| b == b'\r').next().unwrap_or_default());
    let status = status.map_or_else(|| "200 OK".to_owned(), |status| String::from_utf8_lossy(status).into_owned());
    let mut stream = stream;
    stream.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n").as_bytes())?;
    stream.write_all(&output)
}
