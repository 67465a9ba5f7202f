//! `git-dibs cluster`: looks at a cluster, moves a repository, copies journals in and out.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::{Exit, talk};
use crate::serve::upkeep::cluster::{ClusterAccess, ClusterStatus, SignIn};

/// Works on etcd directly, so no server needs to run.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// The cluster's etcd: etcd://HOST:2379,HOST:2379/PREFIX, or etcds:// for TLS
    #[arg(long, value_name = "ADDRESS", env = "DIBS_CLUSTER", global = true)]
    cluster: Option<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
}

// How to sign in to etcd. A doc comment here would replace those of the commands.
#[derive(clap::Args)]
pub struct EtcdArgs {
    /// The authorities (PEM) that etcd's certificates come from. The default is what the system trusts.
    #[arg(long, value_name = "FILE", env = "DIBS_CLUSTER_CA", global = true)]
    pub cluster_ca: Option<PathBuf>,
    /// The certificate (PEM) with which this program signs in to etcd.
    #[arg(long, value_name = "FILE", env = "DIBS_CLUSTER_CERT", global = true)]
    pub cluster_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM).
    #[arg(long, value_name = "FILE", env = "DIBS_CLUSTER_KEY", global = true)]
    pub cluster_key: Option<PathBuf>,
    /// The user with which this program signs in to etcd.
    #[arg(long, value_name = "NAME", env = "DIBS_CLUSTER_USER", global = true)]
    pub cluster_user: Option<String>,
    /// A file with the password of that user.
    #[arg(long, value_name = "FILE", env = "DIBS_CLUSTER_PASSWORD_FILE", global = true)]
    pub cluster_password_file: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the nodes, who leads which repository, and how etcd is
    ///
    /// Exits with 1 if something is wrong.
    Status {
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Let another node lead a repository
    Move {
        /// The name of the repository
        repository: String,
        /// The name of the node
        node: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the journal of a stopped server into the cluster, for a repository that has none there yet
    ///
    /// Fences and event numbers continue far above those that were used before. If it breaks off, no node leads the
    /// repository until it is repeated, which begins again.
    Import {
        /// The directory of the server
        data: PathBuf,
        /// The name of the repository in the cluster
        #[arg(long, value_name = "NAME")]
        repo: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy the journal of a repository out of the cluster, for a server of its own
    ///
    /// Stop the nodes that serve it first: what they decide later is not in the copy. Fences and event numbers of the copy
    /// continue far above those of the cluster.
    Export {
        /// A directory without a journal
        data: PathBuf,
        /// The name of the repository in the cluster
        #[arg(long, value_name = "NAME")]
        repo: String,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args) -> Result<Exit> {
    let json = match args.command {
        Command::Status { json }
        | Command::Move { json, .. }
        | Command::Import { json, .. }
        | Command::Export { json, .. } => json,
    };
    run_command(args, json).map_err(|error| Failure::of(error, json).into())
}

fn run_command(args: Args, json: bool) -> Result<Exit> {
    let Some(cluster) = args.cluster else {
        anyhow::bail!("say which cluster: --cluster etcd://HOST:2379/PREFIX, or DIBS_CLUSTER");
    };
    let sign_in = SignIn {
        authorities: args.etcd.cluster_ca,
        certificate: args.etcd.cluster_cert,
        key: args.etcd.cluster_key,
        user: args.etcd.cluster_user,
        password_file: args.etcd.cluster_password_file,
    };
    let access = ClusterAccess::new(&cluster, sign_in)?;
    match args.command {
        Command::Status { .. } => show(&access.status()?, json),
        Command::Move { repository, node, .. } => {
            access.move_to(&repository, &node)?;
            report(
                json,
                json!({ "repository": repository, "node": node }),
                &format!("node {node} leads {repository} now"),
            )
        }
        Command::Import { data, repo, .. } => {
            let (last, next) = access.import(&repo, &data)?;
            let text =
                format!("the cluster has the journal up to record {}; its numbers continue at {}", last.0, next.0);
            report(json, json!({ "repository": repo, "last": last.0, "next": next.0 }), &text)
        }
        Command::Export { data, repo, .. } => {
            let (last, next) = access.export(&repo, &data)?;
            let text = format!(
                "{} has the journal up to record {}; its numbers continue at {}. What the cluster decides from now on is not in \
                 it, so start no server on it while nodes still serve {repo}",
                data.display(),
                last.0,
                next.0
            );
            report(json, json!({ "repository": repo, "last": last.0, "next": next.0 }), &text)
        }
    }
}

fn report(json: bool, document: serde_json::Value, text: &str) -> Result<Exit> {
    if json {
        talk::document(document.to_string().as_bytes())?;
    } else {
        talk::say(text);
    }
    Ok(Exit::Ok)
}

fn show(status: &ClusterStatus, json: bool) -> Result<Exit> {
    let exit = if status.problems.is_empty() { Exit::Ok } else { Exit::Error };
    if json {
        talk::document(&serde_json::to_vec(status)?)?;
        return Ok(exit);
    }
    let mut text = String::new();
    for repository in &status.repositories {
        let leader = match (&repository.leader, repository.epoch) {
            (Some(leader), Some(epoch)) => format!("led by {leader} in epoch {epoch}"),
            _ => "led by no node".to_owned(),
        };
        text += &format!("repository {}: {leader}, {} records\n", repository.name, repository.head);
    }
    for node in &status.nodes {
        let behind = match node.ledger_behind {
            0 => String::new(),
            records => format!(", its ledger is {records} records behind"),
        };
        let (name, url, version, leads) = (&node.name, &node.url, &node.version, node.leads);
        text += &format!("node {name} at {url}, version {version}, leads {leads}{behind}\n");
    }
    for member in &status.etcd {
        let about = match &member.version {
            Some(version) => {
                let role = if member.is_leader { ", leader" } else { "" };
                let megabytes = |bytes: i64| bytes / (1 << 20);
                let (size, used) = (megabytes(member.size_bytes), megabytes(member.used_bytes));
                format!("version {version}{role}, {size} MiB on disk, {used} MiB used")
            }
            None => "does not answer".to_owned(),
        };
        text += &format!("etcd {}: {about}\n", member.endpoint);
    }
    for problem in &status.problems {
        text += &format!("problem: {problem}\n");
    }
    talk::data(&text)?;
    Ok(exit)
}
