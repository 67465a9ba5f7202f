//! Git LFS as it comes from the package, locking at our server: what its commands say, what its check before a push stops,
//! and what our hooks stop beside it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::managers;
use crate::support::lfs::LfsClient;
use crate::world::{World, said};

/// A worktree of this world and the token that its programs have; none if they must find their session themselves.
struct Place<'w> {
    world: &'w World,
    dir: &'static str,
    token: Option<String>,
}

impl Place<'_> {
    /// Runs a script. Our hooks check nothing unless it says so.
    fn try_run(&self, script: &str) -> Output {
        let mut variables = vec![("DIBS_ENFORCE", "off"), ("GIT_TERMINAL_PROMPT", "0")];
        if let Some(token) = &self.token {
            variables.extend([("DIBS_URL", self.world.url()), ("DIBS_TOKEN", token)]);
        }
        self.world.try_shell(self.dir, script, &variables)
    }

    #[track_caller]
    fn run(&self, script: &str) -> String {
        let output = self.try_run(script);
        assert!(output.status.success(), "{script}\n{}", said(&output));
        said(&output)
    }

    #[track_caller]
    fn fails(&self, script: &str) -> String {
        let output = self.try_run(script);
        assert!(!output.status.success(), "{script}\n{}", said(&output));
        said(&output)
    }

    /// A commit of this change and a push of it, which is only tried.
    fn push(&self, change: &str) -> Output {
        let script = format!(
            "git reset -q --hard origin/main; {change}; git add -A; git commit -qm change; git push --dry-run origin HEAD:main"
        );
        self.try_run(&script)
    }
}

/// A world with git-lfs and a server; none if git-lfs could not be installed.
fn world() -> Option<World> {
    managers::with("git-lfs")
}

/// A session with this name in a directory, where git-lfs locks at our server.
fn place<'w>(world: &'w World, dir: &'static str, session: &str) -> Place<'w> {
    let token = Some(world.session_with(session, json!({ "name": session })).token);
    let place = Place { world, dir, token };
    place.run("git lfs install --local; git-dibs install --lfs");
    place
}

#[test]
fn stock_git_lfs_locks_at_our_server_from_two_clones() {
    let Some(world) = world() else { return };
    world.shell("", "git clone -q \"$TOP/origin.git\" other");
    let (ana, bo) = (place(&world, "work", "ana"), place(&world, "other", "bo"));
    assert!(ana.run("git lfs lock a dir/x").contains("Locked a"));
    assert_eq!(world.held(), ["ana a", "ana dir/x"]);
    let refused = bo.fails("git lfs lock a");
    assert!(refused.contains("ana") && refused.contains("locked by"), "{refused}");
    assert!(ana.fails("git lfs lock a").contains("lock already created"));

    let listed = bo.run("git lfs locks");
    assert!(listed.contains("a\tana") || (listed.contains('a') && listed.contains("ana")), "{listed}");
    assert!(bo.run("git lfs locks --path a").contains("ana"));
    assert_eq!(bo.run("git lfs locks --local").trim(), "");
    assert!(ana.run("git lfs locks --local").contains("dir/x"));
    assert!(bo.run("git lfs locks --cached").contains("dir/x"));
    let verified = ana.run("git lfs locks --verify");
    assert!(verified.lines().filter(|line| line.starts_with("O ")).count() == 2, "{verified}");
    let verified = bo.run("git lfs locks --verify");
    assert!(verified.lines().all(|line| !line.starts_with("O ")) && verified.contains("dir/x"), "{verified}");

    let output = bo.push("echo 1 >>a");
    let text = said(&output);
    assert!(!output.status.success() && text.contains("ana"), "{text}");
    assert!(bo.push("echo 1 >>b").status.success());
    let output = ana.push("echo 1 >>a");
    assert!(output.status.success(), "{}", said(&output));

    ana.run("git reset -q --hard origin/main");
    bo.run("git reset -q --hard origin/main");
    bo.fails("git lfs unlock a");
    let refused = bo.fails("git lfs unlock --force a");
    assert!(refused.contains("only its holder or an admin"), "{refused}");
    assert!(ana.run("git lfs unlock dir/x").contains("Unlocked dir/x"));
    let ops = Place { world: &world, dir: "other", token: Some(world.admin()) };
    ops.run("git lfs unlock --force a");
    assert_eq!(world.held(), Vec::<String>::new());
    bo.run("git lfs lock a");

    let names = ["sp ace", "q\"uo'te", "ü/日本", "-dash", "[x].psd", "100%"];
    for name in names {
        let word = format!("'{}'", name.replace('\'', "'\\''"));
        let output = bo.run(&format!("git lfs lock -- {word}; git lfs locks; git lfs unlock --force -- {word}"));
        assert!(output.contains(&format!("{name}\t")) && output.contains("Unlocked"), "{output}");
    }

    // The other way to send a token.
    let header = "git config --unset-all \"credential.$DIBS_URL.helper\"; git config --unset-all \"lfs.$(git config lfs.url).access\"; git config \"http.$DIBS_URL/.extraHeader\" \"Authorization: Bearer $DIBS_TOKEN\"";
    bo.run(&format!("{header}; git lfs lock b"));
    assert_eq!(world.held(), ["bo a", "bo b"]);
}

#[test]
fn worktrees_of_one_clone_lock_each_for_its_own_session() {
    let Some(world) = world() else { return };
    world.shell("work", "git worktree add -q ../second; git config extensions.worktreeConfig true");
    let [first, second] = ["work", "second"].map(|dir| Place { world: &world, dir, token: None });
    first.run("git-dibs session start --name first");
    second.run("git-dibs session start --name second");
    let report = first.run("git lfs install --local; git-dibs install --lfs");
    assert!(report.contains("lfs.storage="), "{report}");
    first.run("git lfs lock a");
    second.run("git lfs lock b");
    assert!(second.fails("git lfs lock a").contains("first"));
    let own = |place: &Place<'_>| place.run("git lfs locks --local");
    assert!(own(&first).contains('a') && !own(&first).contains("b\t"), "{}", own(&first));
    assert!(own(&second).contains('b') && !own(&second).contains("a\t"), "{}", own(&second));
    let text = second.run("git lfs locks --verify");
    assert!(text.lines().any(|line| line.starts_with("O b")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  a")), "{text}");
    let output = second.try_run("echo 1 >>a; git commit -qam change; git push --dry-run origin HEAD:main");
    assert!(!output.status.success() && said(&output).contains("first"), "{}", said(&output));
}

/// What the stock check lets through, as measured with real clients.
const SLIPS: [(&str, &str); 4] = [
    ("delete", "git rm -q a"),
    ("rename away", "git mv a elsewhere"),
    ("chmod", "chmod +x a"),
    ("copy of an existing blob", "cp b a"),
];

fn our_hooks_stop_what_stock_git_lfs_lets_through(first: &str, second: &str) {
    let Some(world) = world() else { return };
    world.shell("", "git clone -q \"$TOP/origin.git\" other");
    let bo = Place { world: &world, dir: "other", token: Some(world.session("bo").token) };
    bo.run(&format!("{first}; {second} || true; git-dibs install --lfs"));
    LfsClient::new(&world, &world.session("ana").token).lock("a");
    let checked = |change: &str| {
        let script = format!(
            "git reset -q --hard origin/main; {change}; git add -A; git commit -qm change; DIBS_ENFORCE=block git push --dry-run origin HEAD:main"
        );
        bo.try_run(&script)
    };
    for (name, change) in SLIPS {
        let stock = bo.push(change);
        assert!(stock.status.success(), "{name}: the stock check has become better\n{}", said(&stock));
        let both = checked(change);
        assert!(!both.status.success() && said(&both).contains("this push is blocked"), "{name}\n{}", said(&both));
    }
    // Both run: what only the stock check is asked about is stopped too.
    let stock = bo.push("echo 1 >>a");
    assert!(!stock.status.success() && said(&stock).contains("ana"), "{}", said(&stock));
    let both = checked("echo 1 >>b");
    assert!(both.status.success(), "{}", said(&both));
}

#[test]
fn our_hooks_stop_more_than_git_lfs_that_was_installed_before() {
    our_hooks_stop_what_stock_git_lfs_lets_through("git lfs install --local", "git-dibs install");
}

#[test]
fn our_hooks_stop_more_than_git_lfs_that_was_installed_after() {
    our_hooks_stop_what_stock_git_lfs_lets_through("git-dibs install", "git lfs install --local");
}

#[test]
fn files_of_a_directory_that_a_session_holds_are_locks_for_git_lfs() {
    let Some(world) = world() else { return };
    let bo = place(&world, "work", "bo");
    let ana = world.session_with("ana", json!({ "name": "Ana" }));
    let held = ana.hold("dir/");
    let listed = bo.run("git lfs locks");
    assert!(listed.contains("dir/x") && listed.contains("dir/y") && listed.contains("Ana"), "{listed}");
    let output = bo.push("echo 1 >>dir/x");
    assert!(!output.status.success() && said(&output).contains("Ana"), "{}", said(&output));
    let refused = bo.fails("git reset -q --hard origin/main; git lfs unlock --force dir/x");
    assert!(refused.contains(held["reservationId"].as_str().unwrap()) && refused.contains("dir/**"), "{refused}");
    assert!(bo.fails("git lfs lock dir/new").contains("dir/**"));
    // A commit adds a file, and the list has it.
    bo.run("echo 1 >dir/new; git add dir; git commit -qm new");
    assert!(bo.run("git lfs locks").contains("dir/new"));
    ana.release("dir/");
    assert!(bo.run("git reset -q --hard origin/main; git lfs locks").trim().is_empty());
    bo.run("git lfs lock dir/x");
}

#[test]
fn a_server_that_is_away_refuses_pushes_and_the_check_stays_on() {
    let Some(mut world) = world() else { return };
    world.keep_address();
    let token = place(&world, "work", "bo").token;
    let url = world.shell("work", "git config lfs.url").trim().to_owned();
    let push = |world: &World| Place { world, dir: "work", token: None }.push("echo 1 >>b").status.success();
    let with_token = |world: &World| {
        let variables =
            [("DIBS_ENFORCE", "off"), ("GIT_TERMINAL_PROMPT", "0"), ("DIBS_TOKEN", token.as_deref().unwrap())];
        let script =
            "git reset -q --hard origin/main; echo 1 >>b; git commit -qam change; git push --dry-run origin HEAD:main";
        world.try_shell("work", script, &variables).status.success()
    };
    assert!(with_token(&world));
    world.stop();
    assert!(!push(&world));
    world.start();
    assert!(with_token(&world), "it checks again");
    let script = format!("git config --get-all 'lfs.{url}.locksverify' || true; git config lfs.locksverify");
    assert_eq!(world.shell("work", &script).trim(), "true");
}

#[test]
fn the_token_goes_to_one_address_and_into_no_store() {
    let Some(world) = world() else { return };
    world.shell("work", "git config --global credential.helper 'store --file=\"$HOME/stored\"'");
    let ana = place(&world, "work", "ana");
    ana.run("git lfs lock a; git lfs locks; git lfs unlock a");
    assert!(!world.path("home/stored").exists(), "another helper has stored the token");
    let ask = |question: &str| ana.run(&format!("printf '{question}' | git-dibs credential get"));
    let host = world.url().strip_prefix("http://").unwrap().to_owned();
    let answer = ask(&format!("protocol=http\\nhost={host}\\n\\n"));
    assert!(answer.contains("username=ana\n") && answer.contains(ana.token.as_ref().unwrap()), "{answer}");
    for other in ["example.com", "127.0.0.1", "127.0.0.1:1", "localhost:80", &format!("{host}0"), &format!("x@{host}")]
    {
        assert_eq!(ask(&format!("protocol=http\\nhost={other}\\n\\n")), "", "{other}");
    }
    assert_eq!(ask(&format!("protocol=https\\nhost={host}\\n\\n")), "");
    assert_eq!(ask(&format!("protocol=http\\nhost={host}\\npath=other.git\\n\\n")), "");
    assert_eq!(ask(""), "");
    for action in ["store", "erase", "capability"] {
        assert_eq!(ana.run(&format!("printf 'protocol=http\\nhost={host}\\n\\n' | git-dibs credential {action}")), "");
    }
}

/// Old clients ask again without end if refused credentials are answered with 401.
#[test]
fn a_refused_token_ends_the_client() {
    let Some(world) = world() else { return };
    let ana = place(&world, "work", "ana");
    let expired = world.token(json!({ "sub": "ana", "exp": 1_000_000_000 }));
    let script = "git config --replace-all \"credential.$DIBS_URL.helper\" ''; git config --add \"credential.$DIBS_URL.helper\" '!f() { echo username=x; echo password=$BAD; }; f'; git lfs lock a";
    for bad in [&*expired, "", "nonsense"] {
        let text = ana.fails(&format!("BAD='{bad}'; export BAD; {script}"));
        assert!(text.contains("git dibs doctor") || text.contains("token"), "{text}");
    }
}

#[test]
fn the_doctor_examines_git_lfs() {
    let Some(world) = world() else { return };
    let ana = place(&world, "work", "ana");
    let findings = || said(&ana.try_run("git-dibs doctor"));
    let good = findings();
    for words in ["checks locks before every push", "gets its token from git-dibs", "the server answers Git LFS"] {
        assert!(good.lines().any(|line| line.starts_with("good") && line.contains(words)), "{words}\n{good}");
    }
    ana.run("git config \"lfs.$(git config lfs.url).locksverify\" false");
    let bad = findings();
    assert!(bad.contains("a client switched the check"), "{bad}");
    ana.run("git-dibs install --lfs");
    assert!(!findings().contains("switched the check"));
    ana.run("git config --unset-all \"credential.$DIBS_URL.helper\"");
    assert!(findings().contains("does not get its token from git-dibs"));
    let url = ana.run("git config lfs.url").trim().to_owned();
    ana.run("git config lfs.url https://elsewhere.example/");
    assert!(findings().contains("does not lock at this server"));
    ana.run(&format!("git-dibs uninstall; git-dibs install; git config --file .lfsconfig lfs.url {url}"));
    assert!(findings().contains("this clone has no token for it"), "{}", findings());
}

#[test]
fn installing_again_changes_nothing_and_uninstalling_restores() {
    let Some(world) = world() else { return };
    world.shell("work", "git config lfs.url https://objects.example/x");
    let ana = place(&world, "work", "ana");
    let settings = || world.shell("work", "git config --local --list | grep '^lfs\\|^credential\\|^dibs' | sort");
    let first = settings();
    let again = ana.run("git-dibs install --lfs --json");
    assert!(again.contains("\"done\":[]"), "{again}");
    assert_eq!(settings(), first);
    ana.run("git-dibs uninstall");
    let left = world
        .shell("work", "git config --local --list | grep '^lfs.*url\\|^lfs.*verify\\|^credential\\|^dibs' || true");
    assert_eq!(left, "lfs.url=https://objects.example/x\n");
}

/// A repository that stores objects elsewhere: the client is sent there, and our token is not.
#[test]
fn objects_go_to_the_server_that_stores_them() {
    let Some(mut world) = world() else { return };
    let store = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = store.local_addr().unwrap();
    let requests = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for connection in store.incoming() {
            let mut connection = connection.unwrap();
            let mut bytes = Vec::new();
            let mut buffer = [0; 8192];
            // A request with a body that has arrived whole ends with its last brace.
            while !bytes.ends_with(b"}") && !bytes.ends_with(b"}\n") {
                match connection.read(&mut buffer) {
                    Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let oid = text.split("\"oid\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            // The store has the object already, so there is nothing to upload.
            let body = json!({ "transfer": "basic", "objects": [{ "oid": oid, "size": 6 }] }).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.git-lfs+json\r\nconnection: close\r\n";
            let _ = write!(connection, "{head}content-length: {}\r\n\r\n{body}", body.len());
            seen.lock().unwrap().push(text);
        }
    });
    world.stop();
    world.configure(&format!("[lfs]\nforward = \"http://{address}/store\"\n"));
    world.start();
    let ana = place(&world, "work", "ana");
    // The client asks for credentials for that host, and git has some.
    ana.run(&format!(
        "git config 'credential.http://{address}.helper' '!f() {{ echo username=u; echo password=p; }}; f'"
    ));
    let output = ana.push("git lfs track '*.bin' >/dev/null; echo large >x.bin");
    assert!(output.status.success(), "{}", said(&output));
    let output = ana.try_run("git push origin HEAD:objects");
    assert!(output.status.success(), "{}", said(&output));
    let requests = requests.lock().unwrap();
    let batch = requests.iter().find(|request| request.starts_with("POST /store/objects/batch")).expect("a batch call");
    assert!(!batch.contains(ana.token.as_ref().unwrap()), "our token was sent to another server");
}
