//! chromedriver, one for all tests of this binary, and WebDriver calls to it with the test client.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::support::http::{Address, Connection};
use crate::support::process::{Process, until};
use crate::support::world::skip;

/// Programs by the names that distributions use.
const DRIVERS: [&str; 1] = ["chromedriver"];
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

pub struct Driver {
    address: Address,
    pub browser: PathBuf,
    _process: Mutex<Process>,
}

/// The process group of the driver and its browsers.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Kills the driver when this process exits: a static value is never dropped.
extern "C" fn end_driver() {
    // SAFETY: the call takes numbers only, and the group is that of a process that was not waited for.
    unsafe { libc::kill(-GROUP.load(Ordering::SeqCst), libc::SIGKILL) };
}

/// The driver, started by the first test that needs it; none where a program is missing.
pub fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            let found = find(&DRIVERS).zip(find(&BROWSERS));
            if found.is_none() {
                skip("the tests in a browser, because chromium or chromedriver is not installed");
            }
            found.map(|(program, browser)| Driver::start(program, browser))
        })
        .as_ref()
}

fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let all = names.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    all.into_iter().find(|file| file.is_file())
}

impl Driver {
    fn start(program: PathBuf, browser: PathBuf) -> Driver {
        // A port that is free now; the driver does not choose one by itself.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Process::start_group(Command::new(program).arg(format!("--port={port}"))).unwrap();
        GROUP.store(i32::try_from(process.id()).unwrap(), Ordering::SeqCst);
        // SAFETY: the function has no arguments, uses no memory of its caller, and may run at any time.
        unsafe { libc::atexit(end_driver) };
        let address = Address::Tcp(([127, 0, 0, 1], port).into());
        let driver = Driver { address, browser, _process: Mutex::new(process) };
        until("chromedriver answers", || driver.try_call("GET", "/status", None).ok());
        driver
    }

    /// One WebDriver call; the error is the driver's own.
    pub fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let mut connection = Connection::open(&self.address).map_err(|error| error.to_string())?;
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let headers = [("content-type", "application/json"), ("connection", "close")];
        let answer = connection.call(method, path, &headers, &body).map_err(|error| error.to_string())?;
        let value = answer.json()["value"].take();
        match answer.status {
            200 => Ok(value),
            _ => Err(format!("{}: {}", value["error"], value["message"])),
        }
    }

    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.try_call(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A new browser with a profile of its own.
    pub fn new_session(&self, profile: &std::path::Path) -> String {
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
        ];
        let mut args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        args.push(format!("--user-data-dir={}", profile.display()));
        let options = json!({ "binary": self.browser, "args": args });
        let wanted = json!({
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" }, "timeouts": { "script": 60_000, "pageLoad": 60_000 },
        });
        let made = self.call("POST", "/session", Some(&json!({ "capabilities": { "alwaysMatch": wanted } })));
        made["sessionId"].as_str().expect("a session has an id").to_owned()
    }
}
