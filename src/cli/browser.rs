//! Starts the user's browser.

use std::process::{Command, Stdio};

use crate::local::Environment;

/// Programs that open an address in the browser that the user chose.
const OPENERS: [&str; 4] = ["xdg-open", "wslview", "open", "www-browser"];

/// Opens an address: with the program in `BROWSER`, else with the desktop's own. Returns whether a program was started; it
/// goes on after this process ends.
pub fn open(url: &str, environment: &Environment) -> bool {
    let is_set = |name: &str| environment.text(name).is_some_and(|value| !value.trim().is_empty());
    if let Some(browser) = environment.text("BROWSER").filter(|browser| !browser.trim().is_empty()) {
        return browser.split(':').any(|program| start(program, url));
    }
    // Without a display, an opener would start a browser for terminals, which has no terminal here.
    let has_display = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    has_display && OPENERS.iter().any(|program| start(program, url))
}

fn start(program: &str, url: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
