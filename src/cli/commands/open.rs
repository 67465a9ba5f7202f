//! `git-dibs open`: shows the dashboard in a browser, signed in.

use anyhow::Result;
use serde_json::json;

use crate::cli::context::{Context, ServerArgs};
use crate::cli::failure::Failure;
use crate::cli::{Exit, browser, talk};
use crate::local::admin;

#[derive(clap::Args)]
pub struct Args {
    /// Act as an admin: with an admin's token, or as the owner of a local server
    #[arg(long)]
    admin: bool,
    /// Print the address, and open no browser
    #[arg(long)]
    print: bool,
    /// Print the address and when its code expires as one JSON document, and open no browser
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: Args) -> Result<Exit> {
    let mut context = Context::open_without_session(&args.server, args.json)?;
    let page = context.use_browser_address()?;
    // An admin has no session of its own. The page shows this one as the admin's, and answers for it.
    let own = context.access.session.clone().filter(|_| args.admin);
    let code = if args.admin {
        let credential = admin::credential(&context.access, &context.workspace);
        let credential = credential.map_err(|why| Failure::new(Exit::Auth, why).for_program(args.json))?;
        context.access.credential = Some(credential);
        context.use_credential()?;
        let result = context.client.create_login_code();
        context.checked(result)?
    } else {
        context.look(|client, _| client.create_login_code())?
    };
    // An admin's token may be for several repositories; the page begins with this one.
    let names_repo = context.access.credential.as_ref().is_some_and(|credential| credential.repo.is_some());
    let repo = context.access.repo.as_deref().filter(|_| !names_repo);
    let url = page.login_url(&code.code, &[("repo", repo), ("session", own.as_deref())]);
    if args.json {
        talk::document(json!({ "url": url, "expiresAt": code.expires_at }).to_string().as_bytes())?;
        return Ok(Exit::Ok);
    }
    talk::data(&format!("{url}\n"))?;
    match args.print {
        true => {}
        false if browser::open(&url, &context.workspace.environment) => {}
        false => talk::say("no browser can be started here; open the address above within a minute"),
    }
    Ok(Exit::Ok)
}
