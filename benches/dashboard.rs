//! How long the dashboard works in a real browser: the first render with 10,000 reservations, and frames while 100 changes
//! arrive every second. Measured by the browser itself.
//!
//! `cargo bench --bench dashboard`; it needs chromium and chromedriver, and says so where they are missing.

#[path = "../tests/support/mod.rs"]
mod support;

#[path = "../tests/browser/browser.rs"]
#[allow(dead_code, reason = "the bench uses a part of it")]
mod browser;
#[path = "../tests/browser/driver.rs"]
mod driver;
#[path = "../tests/browser/world.rs"]
#[allow(dead_code, unused_imports, reason = "the bench uses a part of it")]
mod world;

use std::time::{Duration, Instant};

use browser::Browser;
use serde_json::json;
use support::http::Connection;
use world::World;

const HELD: usize = 10_000;
const CHANGES_PER_SECOND: u32 = 100;
const SECONDS: u32 = 10;

const ALL_KNOWN: &str = "return document.querySelector('nav a[aria-current] .count')?.textContent === '10,000'";

fn main() {
    // `cargo test --benches` runs this too, and only wants to know whether it starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let world = World::new();
    reserve_many(&world);
    let Some(browser) = world.browser() else { return };
    first_render(&world, &browser);
    changes(&world, &browser);
}

fn reserve_many(world: &World) {
    let keys: Vec<String> = (0..HELD).map(|n| format!("src/module{}/part{}/file{n}.rs", n % 100, n % 7)).collect();
    for (n, some) in keys.chunks(1000).enumerate() {
        let body = json!({ "filePaths": some, "ttlSeconds": 300, "reason": "a large change" });
        world.named(&format!("agent-{n}"), &format!("Agent {n}")).reserve(body).ok();
    }
}

fn first_render(world: &World, browser: &Browser) {
    browser.devtools("Performance.enable", json!({}));
    browser.go(&world.login_url(&world.reader(), ""));
    browser.until("all are known", ALL_KNOWN);
    let [script, layout, task] = ["ScriptDuration", "LayoutDuration", "TaskDuration"].map(|name| metric(browser, name));
    println!(
        "first render of {HELD} reservations: {script:.0} ms of script, {layout:.0} ms of layout, {task:.0} ms of all tasks"
    );
    let files = "return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).filter((one) => !one.name.includes('/api/'))";
    println!(
        "files: {} requests, {} bytes compressed, those that are loaded later included",
        browser.run(&format!("{files}.length")),
        browser.run(&format!("{files}.reduce((sum, one) => sum + one.encodedBodySize, 0)"))
    );
}

fn changes(world: &World, browser: &Browser) {
    browser.run("window.gaps = []; let last = 0; const next = (at) => { if (last) window.gaps.push(at - last); last = at; requestAnimationFrame(next) }; requestAnimationFrame(next)");
    let (script, start) = (metric(browser, "ScriptDuration"), Instant::now());
    let mut connection = world.connect();
    let busy = world.named("busy", "Busy");
    for n in 0..CHANGES_PER_SECOND * SECONDS {
        let (call, key) = if n % 2 == 0 { ("reserve", n) } else { ("release", n - 1) };
        change(&mut connection, &busy.token, call, &format!("src/module3/part1/busy{key}.rs"));
        let due = Duration::from_secs(1) * (n + 1) / CHANGES_PER_SECOND;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    let took = start.elapsed().as_secs_f64();
    let script = (metric(browser, "ScriptDuration") - script) / took;
    let frames = browser.run("const gaps = window.gaps.sort((a, b) => a - b); return `${gaps.length} frames, median ${gaps[gaps.length >> 1].toFixed(1)} ms, 99 % below ${gaps[Math.floor(gaps.length * 0.99)].toFixed(1)} ms, longest ${gaps.at(-1).toFixed(1)} ms, ${gaps.filter((gap) => gap > 25).length} dropped`");
    let count = CHANGES_PER_SECOND * SECONDS;
    println!("{count} changes in {took:.1} s: {script:.0} ms of script a second; {}", frames.as_str().unwrap());
}

fn change(connection: &mut Connection, token: &str, call: &str, key: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let body = json!({ "filePath": key }).to_string();
    connection.call("POST", &format!("/api/sessions/busy/files/{call}"), &headers, body.as_bytes()).unwrap().ok();
}

/// A number of the browser, in milliseconds.
fn metric(browser: &Browser, name: &str) -> f64 {
    let metrics = browser.devtools("Performance.getMetrics", json!({}))["metrics"].clone();
    let found = metrics.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["value"].as_f64();
    found.unwrap() * 1000.0
}
