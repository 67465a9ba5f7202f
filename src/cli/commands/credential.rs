//! `git-dibs credential`: git's credential helper for the one address that Git LFS locks at.

use std::io::Read;

use anyhow::Result;

use crate::cli::{Exit, talk};
use crate::client::{Client, Limits};
use crate::hook::install::lfs::installed;
use crate::local::lfs::{CredentialQuestion, LfsAddress};
use crate::local::{Flags, ServerAccess, Workspace};

/// The longest question that is read, in bytes.
const QUESTION_MAX: u64 = 64 * 1024;

#[derive(clap::Args)]
pub struct Args {
    /// What git wants: get, store or erase. A token is never stored.
    #[arg(value_name = "ACTION")]
    action: String,
}

/// Answers only for the server of this repository. To any other question it says nothing, and git asks the next helper.
pub fn run(args: Args) -> Result<Exit> {
    if args.action != "get" {
        return Ok(Exit::Ok);
    }
    let mut text = String::new();
    std::io::stdin().lock().take(QUESTION_MAX).read_to_string(&mut text)?;
    let question = CredentialQuestion::parse(&text);
    let Ok(workspace) = Workspace::open() else { return Ok(Exit::Ok) };
    let Ok(mut access) = workspace.discover(Flags::default()) else { return Ok(Exit::Ok) };
    if !answers(&access, &question) {
        // Where Git LFS was told to lock, but the server has moved: a person would be asked for a password.
        let told = workspace.repo.as_ref().and_then(installed).filter(|url| question.is_about(url));
        return match (told, LfsAddress::of(&access)) {
            (Some(told), Some(server)) if told != server.url => refuse(&format!(
                "Git LFS locks at {told}, but the server is at {}; run: git dibs install --lfs",
                server.url
            )),
            _ => Ok(Exit::Ok),
        };
    }
    // Git LFS cannot start a server, and git does not look who listens at an address. The client does both.
    if let Err(sentence) = reached(&access) {
        let starts = access.client(Limits::default()).ok().and_then(|mut client| client.health().ok()).is_some();
        access = if starts { workspace.discover(Flags::default())? } else { access };
        if !answers(&access, &question) || reached(&access).is_err() {
            return refuse(&sentence);
        }
    }
    match (&access.credential, &access.token_problem) {
        (_, Some(problem)) => refuse(problem),
        (None, None) => refuse("there is no token here; get one with: git dibs session start"),
        (Some(credential), None) => {
            let user = access.session.as_deref().unwrap_or("dibs");
            let expires = credential.expires.map(|at| format!("password_expiry_utc={at}\n")).unwrap_or_default();
            talk::data(&format!("username={user}\npassword={}\n{expires}", credential.token()))?;
            Ok(Exit::Ok)
        }
    }
}

fn answers(access: &ServerAccess, question: &CredentialQuestion) -> bool {
    LfsAddress::of(access).is_some_and(|server| server.answers(question))
}

/// Whether the server answers at the address that git asks about, and may get this token there.
fn reached(access: &ServerAccess) -> Result<(), String> {
    let server = LfsAddress::of(access).ok_or("the server listens only on a socket, which Git LFS cannot use")?;
    let client = Client::new(vec![server.endpoint], access.credential.clone(), Limits::default());
    let mut client = client.map_err(|error| error.to_string())?.trusting(access.ca_file.clone());
    // Before a token is sent with any call, the client looks who listens there.
    client.health().map(drop).map_err(|error| error.to_string())
}

/// Says why there is no token, and keeps git from asking a person for a password.
fn refuse(sentence: &str) -> Result<Exit> {
    talk::say(sentence);
    talk::data("quit=1\n")?;
    Ok(Exit::Ok)
}
