//! Git LFS as it comes from the package, locking at our server: what its commands say, what its check before a push stops,
//! and what our hooks stop beside it. Everything runs with the git-lfs of the machine's release and with the newest one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
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

/// Where `./test` puts a git-lfs, below `target/managers`.
#[derive(Clone, Copy)]
struct Client(&'static str);

/// A world with this git-lfs and a server; none if it could not be had.
fn world(client: Client) -> Option<World> {
    managers::with_in(&[client.0], "git-lfs")
}

/// A session with this name in a directory, where git-lfs locks at our server.
fn place<'w>(world: &'w World, dir: &'static str, session: &str) -> Place<'w> {
    let token = Some(world.session_with(session, json!({ "name": session })).token);
    let place = Place { world, dir, token };
    place.run("git lfs install --local; git-dibs install --lfs");
    place
}

fn stock_git_lfs_locks_at_our_server_from_two_clones(client: Client) {
    let Some(world) = world(client) else { return };
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

fn worktrees_of_one_clone_lock_each_for_its_own_session(client: Client) {
    let Some(world) = world(client) else { return };
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

fn our_hooks_stop_what_stock_git_lfs_lets_through(client: Client, first: &str, second: &str) {
    let Some(world) = world(client) else { return };
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

fn our_hooks_stop_more_than_git_lfs_that_was_installed_before(client: Client) {
    our_hooks_stop_what_stock_git_lfs_lets_through(client, "git lfs install --local", "git-dibs install");
}

fn our_hooks_stop_more_than_git_lfs_that_was_installed_after(client: Client) {
    our_hooks_stop_what_stock_git_lfs_lets_through(client, "git-dibs install", "git lfs install --local");
}

fn files_of_a_directory_that_a_session_holds_are_locks_for_git_lfs(client: Client) {
    let Some(world) = world(client) else { return };
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

fn a_server_that_is_away_refuses_pushes_and_the_check_stays_on(client: Client) {
    let Some(mut world) = world(client) else { return };
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

fn the_token_goes_to_one_address_and_into_no_store(client: Client) {
    let Some(world) = world(client) else { return };
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
fn a_refused_token_ends_the_client(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let expired = world.token(json!({ "sub": "ana", "exp": 1_000_000_000 }));
    let script = "git config --replace-all \"credential.$DIBS_URL.helper\" ''; git config --add \"credential.$DIBS_URL.helper\" '!f() { echo username=x; echo password=$BAD; }; f'; git lfs lock a";
    for bad in [&*expired, "", "nonsense"] {
        let text = ana.fails(&format!("BAD='{bad}'; export BAD; {script}"));
        assert!(text.contains("git dibs doctor") || text.contains("token"), "{text}");
    }
}

fn the_doctor_examines_git_lfs(client: Client) {
    let Some(world) = world(client) else { return };
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

fn installing_again_changes_nothing_and_uninstalling_restores(client: Client) {
    let Some(world) = world(client) else { return };
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
fn objects_go_to_the_server_that_stores_them(client: Client) {
    let Some(mut world) = world(client) else { return };
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

/// Old clients send a call without credentials again and again, if the user gives them none.
fn an_empty_answer_to_the_question_for_a_password_ends_the_client(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let script = "git config --unset-all \"credential.$DIBS_URL.helper\"; export GIT_ASKPASS=true; timeout 60 git lfs";
    for call in ["lock a", "locks", "locks --verify"] {
        let output = ana.try_run(&format!("{script} {call}"));
        // 124 is what timeout says of a client that goes on and on.
        assert!(!output.status.success() && output.status.code() != Some(124), "{call}\n{}", said(&output));
        ana.run("git-dibs install --lfs");
    }
}

/// Git LFS prefers it to `lfs.url`: locks, and the check before a push, would go to another server.
fn a_push_address_of_its_own_does_not_divert_the_check(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let findings = || said(&ana.try_run("git-dibs doctor"));
    for (set, restored) in [
        ("git config lfs.pushurl http://127.0.0.1:1/x", "http://127.0.0.1:1/x\n"),
        ("git config --file .lfsconfig lfs.pushurl http://127.0.0.1:1/x", ""),
    ] {
        ana.run(set);
        assert!(findings().contains("lfs.pushurl is http://127.0.0.1:1/x"), "{}", findings());
        ana.run("git-dibs install --lfs; git lfs lock a; git lfs unlock --force a");
        assert!(!findings().contains("lfs.pushurl"), "{}", findings());
        ana.run("git-dibs uninstall");
        assert_eq!(world.shell("work", "git config lfs.pushurl || true"), restored);
        ana.run("git config --unset lfs.pushurl || true; git-dibs install --lfs");
    }
}

/// From then on clients ask our server for the objects, which has none.
fn installing_says_where_objects_were_stored_until_now(client: Client) {
    let Some(world) = world(client) else { return };
    world.shell("work", "mkdir art; echo '*.bin filter=lfs' >art/.gitattributes; git add art");
    world.shell("work", "git worktree add -q ../second; git config extensions.worktreeConfig true");
    let ana = Place { world: &world, dir: "work", token: Some(world.session("ana").token) };
    let report = ana.run("git config remote.origin.url https://git.example/team/app; git-dibs install --lfs");
    assert!(report.contains("forward = \"https://git.example/team/app.git/info/lfs\""), "{report}");
    assert!(!report.contains("lfs.storage"), "worktrees must find each other's objects\n{report}");
    let report =
        ana.run("git-dibs uninstall; git config --file .lfsconfig lfs.url https://o.example/; git-dibs install --lfs");
    assert!(report.contains("forward = \"https://o.example/\""), "{report}");
    let report = ana.run("git-dibs uninstall; git rm -qf art/.gitattributes; rm .lfsconfig; git-dibs install --lfs");
    assert!(!report.contains("forward"), "{report}");
}

/// Otherwise git would ask a person for a password for an address where no server is.
fn the_credential_helper_says_that_the_server_has_moved(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let old = "http://127.0.0.1:1/lfs/old";
    let script = format!(
        "git config dibs-lfs.url {old}; printf 'protocol=http\\nhost=127.0.0.1:1\\n\\n' | git-dibs credential get"
    );
    let text = ana.run(&script);
    assert!(text.contains("quit=1") && text.contains(old) && text.contains(world.url()), "{text}");
    assert!(!text.contains(ana.token.as_ref().unwrap()), "{text}");
}

fn the_doctor_names_the_configuration_that_switched_the_check_off(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let findings = || said(&ana.try_run("git-dibs doctor"));
    ana.run("git config --global \"lfs.$(git config lfs.url).locksverify\" false");
    assert!(findings().contains("git config --global --unset-all lfs.http"), "{}", findings());
    ana.run("git config --global --unset-all \"lfs.$(git config lfs.url).locksverify\"");
    // The value of the clone counts.
    ana.run("git config --global lfs.locksverify false");
    assert!(findings().contains("checks locks before every push"), "{}", findings());
}

/// `dibs.caFile` is a setting that only git-dibs reads.
fn git_lfs_trusts_the_authority_that_git_dibs_trusts(client: Client) {
    let Some(mut world) = world(client) else { return };
    world.stop();
    let fixture = |name: &str| format!("{}/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let key = world.path("key.pem");
    std::fs::copy(fixture("localhost.key"), &key).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    world.args(&["--tls-cert", &fixture("localhost.pem"), "--tls-key", key.to_str().unwrap()]);
    world.start();
    let url = world.url().replace("127.0.0.1", "localhost");
    let token = world.token(json!({ "sub": "ana" }));
    let run = |script: &str| {
        let variables = [("DIBS_URL", &*url), ("DIBS_TOKEN", &*token), ("GIT_TERMINAL_PROMPT", "0")];
        said(&world.try_shell("work", &format!("unset GIT_SSL_CAINFO; {script}"), &variables))
    };
    run(&format!("git config --global dibs.caFile '{}'", fixture("ca.pem")));
    let report = run("git-dibs install --lfs");
    assert!(report.contains(&format!("http.{url}/.sslCAInfo=")), "{report}");
    let text = run("git lfs lock a");
    assert!(text.contains("Locked a"), "{text}");
    run(&format!("git config --unset 'http.{url}/.sslCAInfo'"));
    assert!(run("git-dibs doctor").contains("does not know the authority"));
    run("git-dibs install --lfs; git-dibs uninstall");
    assert_eq!(run("git config --local --list | grep -i cainfo"), "");
}

/// A file name that is not UTF-8 arrives with other characters in it, and the lock would protect no file.
fn a_name_that_git_lfs_cannot_send_is_refused(client: Client) {
    let Some(world) = world(client) else { return };
    let ana = place(&world, "work", "ana");
    let refused = ana.fails("git lfs lock \"$(printf 'x\\377y')\"");
    assert!(refused.contains("git dibs reserve"), "{refused}");
    assert_eq!(world.held(), Vec::<String>::new());
}

/// Every test, with each client.
macro_rules! with_each_client {
    ($($test:ident),* $(,)?) => {
        mod packaged {
            $(#[test] fn $test() { super::$test(super::Client("bin")) })*
        }
        mod newest {
            $(#[test] fn $test() { super::$test(super::Client("newer-git/lfs")) })*
        }
    };
}

with_each_client![
    stock_git_lfs_locks_at_our_server_from_two_clones,
    worktrees_of_one_clone_lock_each_for_its_own_session,
    our_hooks_stop_more_than_git_lfs_that_was_installed_before,
    our_hooks_stop_more_than_git_lfs_that_was_installed_after,
    files_of_a_directory_that_a_session_holds_are_locks_for_git_lfs,
    a_server_that_is_away_refuses_pushes_and_the_check_stays_on,
    the_token_goes_to_one_address_and_into_no_store,
    a_refused_token_ends_the_client,
    the_doctor_examines_git_lfs,
    installing_again_changes_nothing_and_uninstalling_restores,
    objects_go_to_the_server_that_stores_them,
    an_empty_answer_to_the_question_for_a_password_ends_the_client,
    a_push_address_of_its_own_does_not_divert_the_check,
    installing_says_where_objects_were_stored_until_now,
    the_credential_helper_says_that_the_server_has_moved,
    the_doctor_names_the_configuration_that_switched_the_check_off,
    git_lfs_trusts_the_authority_that_git_dibs_trusts,
    a_name_that_git_lfs_cannot_send_is_refused,
];
