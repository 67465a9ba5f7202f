//! `git-dibs token`: signs a token with the local server's secret, for scripts and for trying things out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::client::Address;
use crate::git::Repo;
use crate::local::{READ_TOKEN_FILE, ServerRecord, clock, data_dir};
use crate::token::sign::{SigningSecret, sign};
use crate::token::{NewToken, Scope};
use crate::wire::Time;

/// Signs a token with the local server's secret and prints it.
#[derive(clap::Args)]
pub struct Args {
    /// The session the token acts for; with another scope, the person or program it is for.
    subject: String,
    /// What the token allows: session, worker, read or admin.
    #[arg(long, default_value = "session")]
    scope: Scope,
    /// The repository the token is limited to; required if the server serves several.
    #[arg(long)]
    repo: Option<String>,
    /// The session's display name.
    #[arg(long)]
    name: Option<String>,
    /// The feature the session works on.
    #[arg(long)]
    feature: Option<String>,
    /// With scope worker: what the ids of all its sessions begin with.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The server's address for those who use the token: git-dibs sends it nowhere else. The default is the server's
    /// --public-url.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// How many seconds the token is valid.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(i64).range(1..=315_360_000))]
    ttl: i64,
    /// The server's directory, if it is not in this repository.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The server's secret file, if the server was started with --secret-file.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    secret_file: Option<PathBuf>,
    /// Print the token and when it expires as one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Exit> {
    let json = args.json;
    sign_and_print(args).map_err(|error| Failure::of(error, json).into())
}

fn sign_and_print(args: Args) -> Result<Exit> {
    if args.prefix.is_some() && args.scope != Scope::Worker {
        return Err(Failure::usage("--prefix limits a worker; add --scope worker").into());
    }
    if let Some(url) = &args.url
        && let Err(why) = Address::parse(url)
    {
        return Err(Failure::usage(format!("--url is {url:?}, which is not an address: {why}")).into());
    }
    let issuer = Issuer::find(args.secret_file, args.data)?;
    issuer.check_repository(args.repo.as_deref(), args.scope)?;
    let issued = clock::now().0 / 1000;
    let new = NewToken {
        subject: args.subject.into(),
        scope: args.scope,
        repo: args.repo.map(Into::into),
        name: args.name.map(Into::into),
        feature: args.feature.map(Into::into),
        prefix: args.prefix.map(Into::into),
        url: args.url.or(issuer.public_url).map(Into::into),
        issued,
        expires: issued + args.ttl,
        ..NewToken::default()
    };
    let token = sign(issuer.secret, &new)?;
    if args.json {
        let document = json!({ "token": token, "expiresAt": Time(new.expires * 1000) });
        talk::document(document.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    talk::data(&format!("{token}\n"))?;
    Ok(Exit::Ok)
}

/// The server that the token is for.
struct Issuer {
    secret: SigningSecret,
    /// The names of its repositories; empty if they are not known.
    repositories: Vec<String>,
    public_url: Option<String>,
}

impl Issuer {
    fn find(secret_file: Option<PathBuf>, data: Option<PathBuf>) -> Result<Issuer> {
        let only = |secret| Issuer { secret, repositories: Vec::new(), public_url: None };
        match (secret_file, data, SigningSecret::from_environment()) {
            (Some(file), ..) => Ok(only(SigningSecret::File(file))),
            (None, Some(dir), _) => Ok(Issuer::in_directory(&dir, SigningSecret::File(data_dir::secret(&dir)))),
            (None, None, Some(secret)) => match Repo::from_environment() {
                Ok(repo) => Ok(Issuer::in_directory(&data_dir::dibs_dir(&repo), secret)),
                Err(_) => Ok(only(secret)),
            },
            (None, None, None) => {
                let repo = Repo::from_environment()
                    .context("there is no repository here; go into one, or give --data DIR or --secret-file FILE")?;
                Issuer::of_repository(&data_dir::dibs_dir(&repo))
            }
        }
    }

    /// The server that serves the repository with this `dibs` directory: the one that runs, or one that ran there.
    fn of_repository(dir: &Path) -> Result<Issuer> {
        let secret = match ServerRecord::read(&data_dir::server_record(dir)) {
            Some(ServerRecord { secret_file: Some(file), .. }) => SigningSecret::of_server(&file)?,
            Some(_) => bail!("the server of this repository has no secret file; set DIBS_JWT_SECRET to its secret"),
            // A server ran for this repository and left its read token here, but no secret: a new one would be wrong.
            None if !data_dir::secret(dir).exists() && dir.with_file_name(READ_TOKEN_FILE).exists() => bail!(
                "the server of this repository does not run and keeps its secret elsewhere; name its directory with --data DIR"
            ),
            None => {
                data_dir::make_private(dir)?;
                SigningSecret::File(data_dir::secret(dir))
            }
        };
        Ok(Issuer::in_directory(dir, secret))
    }

    fn in_directory(dir: &Path, secret: SigningSecret) -> Issuer {
        match ServerRecord::read(&data_dir::server_record(dir)) {
            Some(record) => Issuer { secret, repositories: record.repositories, public_url: record.public_url },
            None => Issuer { secret, repositories: data_dir::repositories(dir), public_url: None },
        }
    }

    /// Refuses a token that would be for no repository of the server.
    fn check_repository(&self, repo: Option<&str>, scope: Scope) -> Result<(), Failure> {
        let names = self.repositories.join(", ");
        match repo {
            _ if self.repositories.is_empty() => Ok(()),
            Some(name) if !self.repositories.iter().any(|known| known == name) => {
                Err(Failure::usage(format!("the server has no repository {name:?}; it has {names}")))
            }
            None if self.repositories.len() > 1 && scope != Scope::Admin => Err(Failure::usage(format!(
                "the server has several repositories; name one of them with --repo: {names}"
            ))),
            _ => Ok(()),
        }
    }
}
