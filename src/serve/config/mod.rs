//! The server's configuration: `file` reads the TOML file, `settings` combines it with flags, environment variables and
//! defaults, `check` is `serve --check-config`.

mod check;
mod file;
mod settings;
mod toml_table;

pub use check::report;
pub use file::{File, Reading, named_repo};
pub use settings::{Fixed, Live, Settings};
pub use toml_table::{Problem, Told};
