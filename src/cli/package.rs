//! Work packages: a YAML file that lists what a piece of work has to reserve.
//!
//! ```yaml
//! locks:
//!   files: [src/api/, "src/[id].ts"]
//!   keys: [db:migration-slot]
//!   ttl_minutes: 120
//!   reason: users move to v2
//! ```
//!
//! A file may also list several packages, each with its own name and its own `locks`:
//!
//! ```yaml
//! contracts: {openapi: {files: [openapi/v1.yaml]}}
//! packages:
//! - package_id: users-api
//!   locks: {files: [src/api/users.py], keys: ["contract:openapi/v1.yaml"]}
//! - package_id: users-web
//!   locks: {files: [web/users/]}
//! ```
//!
//! `parse` reads the file; everything outside of `locks`, `contracts` and `packages` is ignored, and in them every mistake is
//! reported, with its line. `contracts` checks keys of contracts, `overlaps` finds packages that would block each other. Paths
//! are relative to the top of the repository, wherever the file is.

mod contracts;
mod overlaps;
mod parse;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Exit;
use super::context::Context;
use super::failure::{Failure, sentence_of};
use super::yaml::Problem;
use crate::client::ClientError;
use crate::key::Key;
use crate::local::Names;
use crate::text::terminal::clean;
use crate::wire::{self, Code, Mode};

/// The largest file that is read, in bytes; 10,000 long paths fit.
const FILE_MAX: usize = 1 << 20;

/// The smallest, the largest and the usual `ttl_minutes`.
const TTL_MINUTES_MIN: i64 = 1;
const TTL_MINUTES_MAX: i64 = 480;
const TTL_MINUTES_DEFAULT: i64 = 120;

/// A work package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// None if it is the only one of its file.
    name: Option<String>,
    keys: Vec<String>,
    /// The line of each key.
    lines: HashMap<Key, usize>,
    ttl_minutes: Option<(i64, usize)>,
    reason: Option<String>,
}

/// Which work package a command is about.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct PackageArgs {
    /// Take the keys from a work package (YAML with locks: files, keys, ttl_minutes, reason); - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    pub package: Option<PathBuf>,
    /// The package that is meant, where the file lists several
    #[arg(long, value_name = "NAME", requires = "package")]
    pub name: Option<String>,
}

/// The package that a command is about, and the others of its file.
#[derive(Debug)]
pub struct ChosenPackage {
    pub package: Package,
    others: Vec<Package>,
}

impl PackageArgs {
    /// Reads the package. Where the file lists several, one of them must be named.
    pub fn read(&self, as_json: bool) -> Result<Option<ChosenPackage>, Failure> {
        let Some(file) = &self.package else { return Ok(None) };
        let mut all = read(file, as_json)?;
        let usage = |sentence: String| Failure::new(Exit::Usage, sentence).for_program_as(as_json, "INVALID_PACKAGE");
        let position = match (&self.name, &*all) {
            (None, [_]) => Some(0),
            (None, _) => {
                return Err(usage(format!("the file lists several packages; say which with --name: {}", names(&all))));
            }
            (Some(name), _) => all.iter().position(|package| package.name.as_ref() == Some(name)),
        };
        match position {
            Some(position) => Ok(Some(ChosenPackage { package: all.swap_remove(position), others: all })),
            None => Err(usage(format!("the file has no package of that name; it has {}", names(&all)))),
        }
    }
}

impl ChosenPackage {
    /// Asks the server whether the other packages of the file could be reserved, each by a session of its own: a file is
    /// valid as a whole or not at all. Whether another session holds something of them does not matter.
    pub fn validate_others(&self, context: &mut Context) -> Result<(), Failure> {
        for package in &self.others {
            let question = package.question(None);
            if let Err(error) = context.try_look(|client, _| client.check(None, &question))? {
                let name = clean(package.name.as_deref().unwrap_or_default(), 300);
                let place = package.line_of(&error).unwrap_or_else(|| format!("package {name} of the same file"));
                return Err(context.failure_with(&error, format!("{} ({place})", sentence_of(&error))));
            }
        }
        Ok(())
    }
}

fn names(all: &[Package]) -> String {
    let names: Vec<&str> = all.iter().map(|package| package.name.as_deref().unwrap_or("one without a name")).collect();
    clean(&names.join(", "), 300)
}

/// Reads a file, or stdin if it is `-`. The failure lists every problem.
fn read(file: &Path, as_json: bool) -> Result<Vec<Package>, Failure> {
    let name = if file.as_os_str() == "-" { "stdin".to_owned() } else { clean(&file.display().to_string(), 300) };
    let unreadable = |why: String| Failure::new(Exit::Usage, why).for_program_as(as_json, "INVALID_PACKAGE");
    let mut bytes = Vec::new();
    let read = match name.as_str() {
        "stdin" => std::io::stdin().take(FILE_MAX as u64 + 1).read_to_end(&mut bytes),
        _ => File::open(file).and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes)),
    };
    if let Err(error) = read {
        return Err(unreadable(format!("cannot read the work package {name}: {error}")));
    }
    if bytes.len() > FILE_MAX {
        let sentence = format!("the work package {name} is larger than {FILE_MAX} bytes; is it the right file?");
        return Err(unreadable(sentence));
    }
    parse::packages(&bytes).map_err(|problems| invalid(&name, &problems, as_json))
}

fn invalid(name: &str, problems: &[Problem], as_json: bool) -> Failure {
    let count = if problems.len() == 1 { "a problem".to_owned() } else { format!("{} problems", problems.len()) };
    let mut sentence = format!("the work package {name} has {count}, and nothing was done:");
    for problem in problems {
        sentence.push_str(&format!("\n  line {}: {}", problem.line, clean(&problem.what, 600)));
    }
    let shown: Vec<_> = problems.iter().map(|p| json!({ "line": p.line, "problem": p.what })).collect();
    let document = json!({ "error": sentence, "code": "INVALID_PACKAGE", "problems": shown });
    let document = as_json.then(|| document.to_string().into_bytes());
    Failure { document, ..Failure::new(Exit::Usage, sentence) }
}

impl Package {
    /// The problems of a text, each with its line.
    pub fn examine(bytes: &[u8]) -> Result<(), Vec<(usize, String)>> {
        let pairs = |problems: Vec<Problem>| problems.into_iter().map(|problem| (problem.line, problem.what)).collect();
        parse::packages(bytes).map(|_| ()).map_err(pairs)
    }

    /// The question whether it could be reserved. What `reserve` would be refused for is a mistake of the package too.
    pub fn question(&self, mode: Option<Mode>) -> wire::Check {
        let names = self.names();
        wire::Check {
            paths: Some(names.texts()),
            mode,
            while_session: Some(true),
            idle_seconds: Some(self.idle_seconds()),
            encoding: names.encoding(),
            ..wire::Check::default()
        }
    }

    /// The keys to reserve.
    pub fn names(&self) -> Names {
        Names::from_keys(self.keys.iter().cloned())
    }

    /// How long it is held after the last sign of life of the session.
    pub fn idle_seconds(&self) -> i64 {
        self.ttl_minutes.map_or(TTL_MINUTES_DEFAULT, |(minutes, _)| minutes) * 60
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The line of the file that a refusal of the server is about.
    pub fn line_of(&self, error: &ClientError) -> Option<String> {
        let ClientError::Refused { body, .. } = error else { return None };
        let line = match body.code {
            Code::TtlOutOfRange => self.ttl_minutes?.1,
            Code::InvalidPath | Code::InvalidKey | Code::OperationNotPermitted => {
                let is_named = |(key, _): &(&Key, &usize)| body.error.contains(&format!("{:?}", key.shown()));
                *self.lines.iter().find(is_named)?.1
            }
            _ => return None,
        };
        Some(format!("line {line} of the work package"))
    }
}

#[cfg(test)]
mod tests;
