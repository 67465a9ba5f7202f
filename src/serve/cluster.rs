//! A server as a node of a cluster: joins it, opens the repositories that it leads, and closes those that it leads no more.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Result, bail};
use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::config::{ClusterSettings, FixedSettings, ReloadableSettings};
use super::open::{self, Workers};
use super::repositories::ServedRepository;
use super::shutdown::Shutdown;
use super::upkeep;
use crate::cluster::{Cluster, LeaderWork, NodeConfig, RunningTerm, Term, View};
use crate::http::{App, ClusterView, Forwarder, Leader, Standing};
use crate::journal::JournalError;
use crate::local::data_dir;
use crate::token::sign::secret_from_environment;

/// How often the other nodes are asked whether they can be reached.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// Joins the cluster. `keys` names the keys with which this node verifies tokens.
pub fn join(
    settings: &ClusterSettings,
    served: &[ServedRepository],
    keys: Option<String>,
    shutdown: Shutdown,
) -> Result<Cluster> {
    let etcd = Arc::new(settings.sign_in.client(&settings.etcd)?);
    let config = NodeConfig {
        etcd,
        prefix: settings.etcd.prefix.clone(),
        name: settings.node.clone(),
        url: settings.advertise.clone(),
        lease_time: settings.lease_time,
        keys,
        repositories: served.iter().map(|repository| repository.name.to_string()).collect(),
    };
    Cluster::join(config, move |sentence| shutdown.fail(sentence))
}

/// A node that made keys of its own would refuse the tokens of all others.
pub fn check_keys(settings: &ReloadableSettings) -> Result<()> {
    if settings.secret_file.is_none() && settings.jwks.is_none() && secret_from_environment().is_none() {
        bail!(
            "all nodes of a cluster verify tokens with the same keys; give each --secret-file, DIBS_JWT_SECRET or --jwks"
        );
    }
    Ok(())
}

/// Sends requests to the nodes that lead.
pub fn forwarder(cluster: &Cluster) -> Forwarder {
    let view = NodeView { view: cluster.view(), node: cluster.node().to_owned() };
    Forwarder::new(Arc::new(view), cluster.secret())
}

struct NodeView {
    view: Arc<View>,
    node: String,
}

impl ClusterView for NodeView {
    fn node(&self) -> &str {
        &self.node
    }

    fn standing(&self, repository: &str) -> Standing {
        match self.view.leader(repository) {
            Some(leader) if leader.is_self => Standing::Leads { epoch: leader.epoch },
            Some(leader) => Standing::Follows(Leader { node: leader.node, url: leader.url, epoch: leader.epoch }),
            None => Standing::NoLeader,
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.view.changes()
    }

    fn problem(&self) -> Option<String> {
        self.view.problem()
    }

    fn has_quorum(&self) -> bool {
        self.view.has_quorum()
    }

    fn notes(&self) -> Vec<String> {
        self.view.notes()
    }

    fn knows_ended_logins(&self) -> bool {
        self.view.knows_ended_logins()
    }
}

/// Shares with the other nodes which browsers have signed out.
pub fn share_logins(cluster: &Cluster, app: &Arc<App>) -> Result<()> {
    app.share_ended_logins(Box::new(cluster.login_ender()));
    let app = app.clone();
    cluster.follow_logins(move |ended| app.hear_ended_logins(ended))
}

/// Finds out again and again which of the other nodes can be reached. One failure may be chance.
pub async fn probe_nodes(view: Arc<View>, app: Arc<App>) {
    let mut failed_before = Vec::new();
    loop {
        let mut failed = Vec::new();
        for other in view.others() {
            match app.probe_node(&other.node, &other.url).await {
                Ok(()) => view.set_unreachable(&other, None),
                Err(why) => {
                    if failed_before.contains(&other) {
                        view.set_unreachable(&other, Some(why));
                    }
                    failed.push(other);
                }
            }
        }
        failed_before = failed;
        tokio::time::sleep(PROBE_EVERY).await;
    }
}

/// What this node does whenever it leads a repository.
pub struct RepositoryWork {
    pub served: ServedRepository,
    pub fixed: FixedSettings,
    /// As they are now.
    pub reloadable: Arc<ArcSwap<ReloadableSettings>>,
    pub app: Arc<App>,
}

impl LeaderWork for RepositoryWork {
    fn begin(&mut self, term: &Term) -> Result<Box<dyn RunningTerm>> {
        let failure = Arc::<OnceLock<String>>::default();
        let (to_set, wake) = (failure.clone(), term.waker());
        let on_failure = move |error: JournalError| {
            let _ = to_set.set(error.to_string());
            wake();
        };
        data_dir::make_private(&self.served.dir)?;
        let mut journal = term.journal()?;
        let head = journal.head();
        let ledger = data_dir::ledger(&self.served.dir);
        upkeep::journal::continue_after_ledger(&mut journal, head, &ledger)?;
        let mut workers = Workers::default();
        let journal = Box::new(journal);
        let reloadable = self.reloadable.load_full();
        let opened = open::open_on(&self.served, &self.fixed, &reloadable, journal, on_failure, &mut workers);
        let repository = match opened {
            Ok(repository) => repository,
            Err(error) => {
                workers.abandon();
                return Err(error);
            }
        };
        self.app.open(repository);
        Ok(Box::new(OpenRepository { app: self.app.clone(), name: self.served.name.to_string(), workers, failure }))
    }
}

/// A repository that this node leads.
struct OpenRepository {
    app: Arc<App>,
    name: String,
    workers: Workers,
    failure: Arc<OnceLock<String>>,
}

impl RunningTerm for OpenRepository {
    fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    fn end(self: Box<Self>, orderly: bool) {
        let OpenRepository { app, name, workers, .. } = *self;
        // What arrives from now on waits for the next leader, or is sent there.
        app.close(&name);
        match orderly {
            true => workers.stop(),
            false => workers.abandon(),
        }
    }
}
