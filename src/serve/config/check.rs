//! `serve --check-config`: every error in the configuration, not only the first.

use std::net::ToSocketAddrs;
use std::path::Path;

use super::{CommandLine, ConfigProblem, ConfigValue, ServerSettings};
use crate::git::Repo;
use crate::local::data_dir;
use crate::serve::listen::{check_address, check_socket, not_an_address};
use crate::serve::logging;
use crate::serve::repositories::{self, split_name};
use crate::serve::tls;
use crate::token::sign::secret_from_environment;
use crate::token::{Keyring, KeyringConfig};

/// Checks the configuration without starting a server or changing anything. Returns one line per error.
pub fn check_config(command_line: &CommandLine) -> Vec<String> {
    let (settings, mut problems) = ServerSettings::load(command_line);
    check_surroundings(&settings, &mut problems);
    problems.sort();
    problems.iter().map(|problem| settings.describe(problem)).collect()
}

/// Checks what the configuration refers to: repositories, directories, addresses, key files.
fn check_surroundings(settings: &ServerSettings, problems: &mut Vec<ConfigProblem>) {
    let (fixed, reloadable) = (&settings.fixed, &settings.reloadable);
    let mut add = |line: Option<usize>, sentence: String| problems.push(ConfigProblem { line, sentence });

    let is_missing = |repo: &&ConfigValue<String>| Repo::at(split_name(&repo.value).1).is_err();
    let missing: Vec<_> = fixed.repo.iter().filter(is_missing).collect();
    for repo in &missing {
        add(repo.line, format!("there is no repository at {}", split_name(&repo.value).1.display()));
    }
    // Without `repo`, the server serves the repository that it is started in. That is not known yet, and a configuration
    // can be checked anywhere.
    let is_outside = fixed.repo.is_empty() && Repo::from_environment().is_err();
    let served = if missing.is_empty() && !is_outside { repositories::find(fixed) } else { Ok(Vec::new()) };
    if let Err(error) = &served {
        add(fixed.repo.last().and_then(|repo| repo.line), format!("{error:#}"));
    }

    if let Some(data) = &fixed.data
        && let Some(existing) = data.value.ancestors().find(|path| path.exists())
        && !existing.is_dir()
    {
        let sentence = match existing == data.value {
            true => format!("data: {} is not a directory", data.value.display()),
            false => format!("data: {} cannot be created: {} is a file", data.value.display(), existing.display()),
        };
        add(data.line, sentence);
    }
    let first = served.iter().flatten().next().map(|repository| repository.dir.clone());
    let home = fixed.data.as_ref().map(|data| data.value.clone()).or(first);

    if let Some(listen) = &fixed.listen {
        let result = match listen.value.to_socket_addrs() {
            Ok(addresses) => check_address(&addresses.collect::<Vec<_>>(), fixed, &listen.value),
            Err(error) => Err(anyhow::anyhow!(error).context(not_an_address(&listen.value))),
        };
        if let Err(error) = result {
            add(listen.line, format!("{error:#}"));
        }
    }
    if let Some(socket) = &fixed.socket
        && let Err(error) = check_socket(&socket.value)
    {
        add(socket.line, format!("{error:#}"));
    }

    if let Err(error) = tls::load(reloadable) {
        add(reloadable.tls_cert.as_ref().and_then(|file| file.line), format!("{error:#}"));
    }

    // Each key by itself, so that one error does not hide another. A missing file is not created.
    let default_secret_file = home.as_deref().map(data_dir::secret);
    // Without a repository the name of the default file is not known, and it does not matter here.
    let secret_file = default_secret_file.clone().unwrap_or_else(|| "secret".into());
    if let Err(error) = reloadable.keyring(secret_file) {
        add(reloadable.secret_file.as_ref().and_then(|file| file.line), format!("{error:#}"));
    }
    let key_error = |config: KeyringConfig| Keyring::new(config).err().map(|error| error.to_string());
    if let Some(secret) = secret_from_environment()
        && let Some(sentence) = key_error(KeyringConfig { secret: Some(secret), ..KeyringConfig::default() })
    {
        add(None, format!("DIBS_JWT_SECRET: {sentence}"));
    }
    if let Some(file) = reloadable.secret_file.clone().or(default_secret_file.map(ConfigValue::from_flag)) {
        let directory = file.value.parent().unwrap_or(Path::new("/"));
        let sentence = match file.value.exists() {
            true => key_error(KeyringConfig { secret_file: Some(file.value.clone()), ..KeyringConfig::default() }),
            false if reloadable.secret_file.is_none() || directory.is_dir() => None,
            false => {
                let (file, directory) = (file.value.display(), directory.display());
                Some(format!("secret-file: {file} cannot be created, because there is no directory {directory}"))
            }
        };
        sentence.into_iter().for_each(|sentence| add(file.line, sentence));
    }
    if let Some(file) = &reloadable.jwks {
        let config = KeyringConfig { jwks_file: Some(file.value.clone()), ..KeyringConfig::default() };
        key_error(config).into_iter().for_each(|sentence| add(file.line, sentence));
    }
    if let Err(error) = logging::filter(fixed.log, reloadable.log_level.as_deref()) {
        add(reloadable.log_level_line, format!("{error:#}"));
    }
}
