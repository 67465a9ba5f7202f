//! The dashboard in a real browser: Debian's chromium, driven over WebDriver, against a real server. Where there is no
//! browser, the tests are skipped, and say so.
//!
//! | file | what is tried |
//! |---|---|
//! | `signing_in` | codes, tokens, cookies, other sites, signing out |
//! | `acting` | release, ask, approve, hand over, reject, withdraw, override, end, pause |
//! | `live` | what appears and goes by itself; two browsers; a server that is killed and started again |
//! | `history` | the timeline: more pages than one, earlier and later |
//! | `many` | 10,000 reservations; a thousand random changes, compared with the server; how long it takes |
//! | `odd` | names full of markup, long paths, no session, an empty repository |
//! | `states` | silent, paused and lost sessions; a wrong clock; what is shown for what is pointed at; filters and their links |
//! | `tabs` | several tabs of one browser, which share an event stream |
//! | `looks` | every view, light and dark, wide and narrow: screenshots, axe-core, no overflow; keys |

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod driver;
mod world;

mod acting;
mod history;
mod live;
mod looks;
mod many;
mod odd;
mod signing_in;
mod states;
mod tabs;
