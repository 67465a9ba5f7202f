//! The holder's push through a server's hook: over ssh and over http the receiving side sees nothing of the pusher's
//! environment, and knows the session by its announcement alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use git_dibs::wire::Mode;
use serde_json::json;

use crate::managers;
use crate::support::session::Session;
use crate::support::world::skip;
use crate::world::{Run, World, said, script};

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

/// A program in the place of `ssh` that runs the command of the far side here, as sshd would: by the shell,
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

/// A real sshd, started by the client for each connection.
#[test]
fn the_holders_push_through_sshd_needs_no_token_on_the_far_side() {
    let setup = Setup::new();
    let Some(ssh) = sshd(&setup.world) else { return };
    let url = format!("ssh://127.0.0.1{}", setup.world.path("origin.git").display());
    setup.try_pushes(&url, &[("GIT_SSH_COMMAND", &ssh)]);
}

/// The command of an ssh client that starts an sshd with keys of its own; none where there is no sshd, or it cannot run.
fn sshd(world: &World) -> Option<String> {
    let unpacked = managers::dir("ssh");
    let own = unpacked.join("usr/sbin/sshd");
    let sshd = if own.exists() { own } else { PathBuf::from("/usr/sbin/sshd") };
    let (top, bin) = (world.path("ssh"), world.path("bin/sshd"));
    let keys = "mkdir ssh; for name in host user; do ssh-keygen -q -t ed25519 -N '' -f ssh/$name; done";
    if !sshd.exists() || !world.try_shell("", keys, &[]).status.success() {
        skip("a push through sshd, because there is none");
        return None;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut config = format!(
        "HostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\nSetEnv PATH={path}\n",
        top.display()
    );
    // Newer versions start these from where they were built to be.
    for (name, file) in [("SshdSessionPath", "sshd-session"), ("SshdAuthPath", "sshd-auth")] {
        let file = unpacked.join("usr/lib/openssh").join(file);
        if file.exists() {
            config += &format!("{name} {}\n", file.display());
        }
    }
    std::fs::write(top.join("config"), config).unwrap();
    // As root it needs a user and a directory of its own; it gets both without changing the machine.
    let private = "p=$1; shift; (grep -v ^sshd: /etc/passwd; echo sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin) >$p && \
        mount --bind $p /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$@\"";
    let libraries = format!("{0}/usr/lib/$(uname -m)-linux-gnu:{0}/lib/$(uname -m)-linux-gnu", unpacked.display());
    script(
        &bin,
        &format!(
            "#!/bin/sh\nset -- env -i PATH=\"$PATH\" LD_LIBRARY_PATH=\"{libraries}\" {} \"$@\" -f {top}/config\n\
             test $(id -u) = 0 || exec \"$@\"\nexec unshare -m sh -c '{private}' sh {top}/passwd \"$@\"\n",
            sshd.display(),
            top = top.display()
        ),
    );
    let tried = world.command(&bin, "").arg("-t").run();
    if !tried.status.success() {
        skip(&format!("a push through sshd, because it cannot run here: {}", said(&tried).trim()));
        return None;
    }
    let options = format!(
        "-F none -i {0}/user -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR \
         -o UserKnownHostsFile={0}/known -o ProxyCommand='{1} -i'",
        top.display(),
        bin.display()
    );
    Some(format!("ssh {options}"))
}

#[test]
fn the_holders_push_over_http_needs_no_token_on_the_far_side() {
    let setup = Setup::new();
    let helper = setup.world.shell("work", "git --exec-path");
    if !Path::new(helper.trim()).join("git-remote-http").exists() {
        skip("a push over http, because this git cannot speak it");
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
