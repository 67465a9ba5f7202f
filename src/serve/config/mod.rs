//! The server's configuration.
//!
//! `options` are the settings that have a flag, `file` reads the TOML file, `settings` combines both with the defaults,
//! `cluster` reads what a node of a cluster needs, and `check` is `serve --check-config`. A flag takes precedence over its environment variable, that over the file, and the
//! file over the default.

mod check;
mod cluster;
mod file;
mod options;
mod settings;
mod toml_table;

pub use check::check_config;
pub use cluster::{ClusterSettings, EtcdSignIn};
pub use file::ConfigFile;
pub use options::{CommandLine, Options};
pub use settings::{FixedSettings, ReloadableSettings, ServerSettings};
pub use toml_table::{ConfigProblem, ConfigValue};
