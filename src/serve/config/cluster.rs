//! The settings of a node of a cluster: where etcd is, how to sign in there, and the name and address of the node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::{ConfigProblem, ConfigValue, Options};
use crate::client::Address;
use crate::cluster::{LEASE_TIME, LEASE_TIMES};
use crate::etcd::{Etcd, EtcdAddress, EtcdOptions, EtcdTls};

/// The longest name of a node.
const NODE_NAME_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    pub etcd: EtcdAddress,
    pub sign_in: EtcdSignIn,
    pub node: String,
    /// The address at which the other nodes reach this one.
    pub advertise: String,
    pub lease_time: Duration,
}

/// Files and names with which a program signs in to etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdSignIn {
    pub authorities: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
}

impl ClusterSettings {
    /// None without a cluster, or if there is an error in its settings.
    pub fn read(options: &Options, problems: &mut Vec<ConfigProblem>) -> Option<ClusterSettings> {
        let Some(cluster) = &options.cluster else {
            for (name, line) in [
                ("node", options.node.as_ref().map(|value| value.line)),
                ("advertise", options.advertise.as_ref().map(|value| value.line)),
            ] {
                if let Some(line) = line {
                    let sentence = format!("{name} is for a cluster, and no cluster is configured");
                    problems.push(ConfigProblem { line, sentence });
                }
            }
            return None;
        };
        let before = problems.len();
        let mut problem = |line: Option<usize>, sentence: String| problems.push(ConfigProblem { line, sentence });
        let etcd = cluster.value.parse::<EtcdAddress>().map_err(|error| problem(cluster.line, error)).ok();
        let node = match &options.node {
            Some(node) if is_node_name(&node.value) => node.value.clone(),
            Some(node) => {
                let sentence = format!(
                    "{:?} is not the name of a node; use 1 to {NODE_NAME_MAX} letters, digits, - _ and .",
                    node.value
                );
                problem(node.line, sentence);
                String::new()
            }
            None => {
                problem(cluster.line, "a node of a cluster needs a name: --node NAME".to_owned());
                String::new()
            }
        };
        let advertise = match options.advertise.as_ref().map(|url| (url, Address::parse(&url.value))) {
            Some((url, Ok(Address::Tcp { .. }))) => url.value.trim_end_matches('/').to_owned(),
            Some((url, _)) => {
                problem(
                    url.line,
                    format!("advertise is {:?}, which is not a URL that other nodes can call", url.value),
                );
                String::new()
            }
            None => {
                let sentence = "a node of a cluster needs the address at which the others reach it: --advertise URL";
                problem(cluster.line, sentence.to_owned());
                String::new()
            }
        };
        let seconds = options.cluster_lease.as_ref();
        if let Some(seconds) = seconds.filter(|seconds| !LEASE_TIMES.contains(&seconds.value)) {
            let (low, high) = (*LEASE_TIMES.start(), *LEASE_TIMES.end());
            problem(seconds.line, format!("cluster-lease is {}, and must be {low} to {high} seconds", seconds.value));
        }
        let lease_time = seconds.map_or(LEASE_TIME, |seconds| Duration::from_secs(seconds.value));
        let sign_in = EtcdSignIn::of(options);
        if sign_in.certificate.is_some() != sign_in.key.is_some() {
            problem(
                cluster.line,
                "cluster-cert and cluster-key belong together, and only one is configured".to_owned(),
            );
        }
        if sign_in.user.is_some() != sign_in.password_file.is_some() {
            let sentence = "cluster-user and cluster-password-file belong together, and only one is configured";
            problem(cluster.line, sentence.to_owned());
        }
        let settings = etcd.map(|etcd| ClusterSettings { etcd, sign_in, node, advertise, lease_time });
        settings.filter(|_| problems.len() == before)
    }
}

impl EtcdSignIn {
    pub fn of(options: &Options) -> EtcdSignIn {
        let path = |value: &Option<ConfigValue<PathBuf>>| value.as_ref().map(|value| value.value.clone());
        EtcdSignIn {
            authorities: path(&options.cluster_ca),
            certificate: path(&options.cluster_cert),
            key: path(&options.cluster_key),
            user: options.cluster_user.as_ref().map(|user| user.value.clone()),
            password_file: path(&options.cluster_password_file),
        }
    }

    /// Reads the files, and makes a client of this etcd.
    pub fn client(&self, address: &EtcdAddress) -> Result<Etcd> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let optional = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        let identity = optional(&self.certificate)?.zip(optional(&self.key)?);
        let password = optional(&self.password_file)?.map(|text| String::from_utf8_lossy(&text).trim_end().to_owned());
        let user = self.user.clone().zip(password);
        let tls = EtcdTls { authorities: optional(&self.authorities)?, identity };
        Etcd::new(address, EtcdOptions { user, tls }).map_err(anyhow::Error::msg)
    }
}

fn is_node_name(name: &str) -> bool {
    (1..=NODE_NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}
