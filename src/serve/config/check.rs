//! `serve --check-config`: everything that is wrong, not just the first of it.

use std::net::ToSocketAddrs;
use std::path::Path;

use anyhow::Result;

use super::{Problem, Settings, Told, named_repo};
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::local::data_dir;
use crate::serve::listen::{check_address, check_socket};
use crate::serve::logging;
use crate::serve::repositories::plan;
use crate::token::{Keyring, KeyringConfig};

/// Says what is wrong, a line each; exits with 1 if anything is.
pub fn report(settings: &Settings, mut problems: Vec<Problem>) -> Result<Exit> {
    look_around(settings, &mut problems);
    problems.sort();
    for problem in &problems {
        talk::data(&format!("{}\n", settings.shown(problem)))?;
    }
    if !problems.is_empty() {
        return Ok(Exit::Error);
    }
    talk::data("the configuration is fine\n")?;
    Ok(Exit::Ok)
}

/// What the text alone cannot tell: files, repositories, addresses. Changes nothing.
fn look_around(settings: &Settings, problems: &mut Vec<Problem>) {
    let (fixed, live) = (&settings.fixed, &settings.live);
    let mut add = |line: Option<usize>, sentence: String| problems.push(Problem { line, sentence });

    let lost = |told: &&Told<String>| Repo::at(named_repo(&told.value).1).is_err();
    let missing: Vec<_> = fixed.repo.iter().filter(lost).collect();
    for told in &missing {
        add(told.line, format!("there is no repository at {}", named_repo(&told.value).1.display()));
    }
    let repos: Vec<&str> = fixed.repo.iter().map(|told| &*told.value).collect();
    let plans = if missing.is_empty() { plan(&repos, None) } else { Ok(Vec::new()) };
    if let Err(error) = &plans {
        add(fixed.repo.last().and_then(|told| told.line), format!("{error:#}"));
    }

    let data = fixed.data.as_ref();
    if let Some(told) = data
        && !told.value.ancestors().find(|dir| dir.exists()).is_none_or(Path::is_dir)
    {
        add(told.line, format!("{} cannot be a directory, because something else is in its way", told.value.display()));
    }
    let first = plans.iter().flatten().next().map(|plan| plan.dir.clone());
    let home = data.map(|told| told.value.clone()).or(first);

    if let Some(told) = &fixed.listen {
        let found = told.value.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let checked = match &found {
            Ok(addresses) => check_address(addresses, fixed, &told.value),
            Err(error) => Err(anyhow::anyhow!("{} is not an address to listen on: {error}", told.value)),
        };
        if let Err(error) = checked {
            add(told.line, format!("{error:#}"));
        }
    }
    if let Some(told) = &fixed.socket
        && let Err(error) = check_socket(&told.value)
    {
        add(told.line, format!("{error:#}"));
    }

    // Each by itself, so that one does not hide the other; and nothing is made that is not there.
    if let Err(error) = live.keyring(home.as_deref().map(data_dir::secret).unwrap_or_default()) {
        add(live.secret_file.as_ref().and_then(|told| told.line), format!("{error:#}"));
    }
    let try_keys = |config: KeyringConfig| Keyring::new(config).err().map(|error| error.to_string());
    let secret = std::env::var("DIBS_JWT_SECRET").ok().filter(|secret| !secret.is_empty()).map(String::into_bytes);
    if secret.is_some()
        && let Some(sentence) = try_keys(KeyringConfig { secret, ..KeyringConfig::default() })
    {
        add(None, format!("DIBS_JWT_SECRET: {sentence}"));
    }
    let usual = home.as_deref().map(|home| Told::elsewhere(data_dir::secret(home)));
    if let Some(told) = live.secret_file.clone().or(usual) {
        let directory = told.value.parent().unwrap_or(Path::new("/"));
        let sentence = match told.value.exists() {
            true => try_keys(KeyringConfig { secret_file: Some(told.value.clone()), ..KeyringConfig::default() }),
            false if live.secret_file.is_none() || directory.is_dir() => None,
            false => Some(format!("{} is no directory in which a secret could be made", directory.display())),
        };
        sentence.into_iter().for_each(|sentence| add(told.line, sentence));
    }
    if let Some(told) = &live.jwks {
        let config = KeyringConfig { jwks_file: Some(told.value.clone()), ..KeyringConfig::default() };
        try_keys(config).into_iter().for_each(|sentence| add(told.line, sentence));
    }
    if let Err(error) = logging::filter(settings.log, live.log_level.as_deref()) {
        add(live.log_level_line, format!("{error:#}"));
    }
}
