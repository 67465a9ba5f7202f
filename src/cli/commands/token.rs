//! `git-dibs token`: signs a token with the local server's secret, for scripts and for trying things out.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::git::Repo;
use crate::local::{clock, data_dir};
use crate::token::mint::{SigningSecret, sign};
use crate::token::{Mint, Scope};
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
    let secret = match (args.secret_file, args.data, SigningSecret::from_environment()) {
        (Some(file), ..) => SigningSecret::File(file),
        (None, Some(dir), _) => SigningSecret::File(data_dir::secret(&dir)),
        (None, None, Some(secret)) => secret,
        (None, None, None) => {
            let repo = Repo::from_environment()
                .context("there is no repository here; go into one, or give --data DIR or --secret-file FILE")?;
            let dir = data_dir::dibs_dir(&repo);
            data_dir::make_private(&dir)?;
            SigningSecret::File(data_dir::secret(&dir))
        }
    };
    let issued = clock::now().0 / 1000;
    let mint = Mint {
        subject: args.subject.into(),
        scope: args.scope,
        repo: args.repo.map(Into::into),
        name: args.name.map(Into::into),
        feature: args.feature.map(Into::into),
        issued,
        expires: issued + args.ttl,
        ..Mint::default()
    };
    let token = sign(secret, &mint)?;
    if args.json {
        let document = json!({ "token": token, "expiresAt": Time(mint.expires * 1000) });
        talk::document(document.to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    talk::data(&format!("{token}\n"))?;
    Ok(Exit::Ok)
}
