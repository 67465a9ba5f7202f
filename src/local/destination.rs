//! To which server a token may be sent.
//!
//! | the address comes from | which tokens go there |
//! |---|---|
//! | `--url`, `DIBS_URL`, a `dibs.url` outside of the repository, a session file | all |
//! | the token itself | that token |
//! | the repository's own `dibs.url` or `server.json` | tokens that name it, and the repository's own; from elsewhere only to a server on this machine that this user or root runs |
//!
//! A repository's files may come from anyone: a directory in a clone can be shaped like a repository and have settings of
//! its own. The last rule's "this user runs" is checked when the connection is open, by [`client`](crate::client).

use crate::client::{Address, Credential, Endpoint, Origin};
use crate::text::shell;
use crate::text::terminal::clean;

/// The longest address that is shown, in characters.
const ADDRESS_CHARS_MAX: usize = 300;

/// A server as the destination of a token. By default one that the user named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Destination {
    addresses: Vec<Address>,
    /// Whether only a file of the repository names it.
    is_of_repository: bool,
    /// The id in its record, if it is the repository's local server.
    server_id: Option<String>,
    /// The server's name for the repository, if the caller or a setting gives it.
    repo: Option<String>,
}

impl Destination {
    pub fn new(endpoints: &[Endpoint], server_id: Option<String>) -> Destination {
        Destination {
            addresses: endpoints.iter().map(|endpoint| endpoint.address.clone()).collect(),
            is_of_repository: endpoints.iter().all(|endpoint| endpoint.own_server_only),
            server_id,
            repo: None,
        }
    }

    /// The same server, for calls about this repository.
    pub fn for_repo(self, repo: Option<String>) -> Destination {
        Destination { repo, ..self }
    }

    /// Why the token is not sent there, as a sentence with what to do; none if it may be sent.
    pub fn refusal(&self, credential: &Credential) -> Option<String> {
        let from = &credential.from;
        if let (Some(own), Some(here)) = (&credential.repo, &self.repo)
            && own != here
        {
            let (own, here) = (clean(own, ADDRESS_CHARS_MAX), clean(here, ADDRESS_CHARS_MAX));
            return Some(format!(
                "the token in {from} is for the repository {own}, but this one is {here} (--repo, DIBS_REPO or git config \
                 dibs.repo); to repair this: git config dibs.tokenFile FILE, with a token for {here}"
            ));
        }
        let is_of_token = |address: &Address| credential.addresses.contains(address);
        // The addresses of a local server are those of one process. Of several others, each could be another server.
        let is_named = match self.server_id {
            Some(_) => self.addresses.iter().any(is_of_token),
            None => self.addresses.iter().all(is_of_token),
        };
        if !self.is_of_repository || is_named || matches!(from, Origin::LocalServer(_) | Origin::PushOption) {
            return None;
        }
        match (&credential.server_id, &self.server_id) {
            (Some(own), Some(here)) if own == here => return None,
            (Some(_), Some(_)) => return Some(self.is_for_another(credential)),
            _ => {}
        }
        if from.is_repository() {
            return (!credential.addresses.is_empty()).then(|| self.is_for_another(credential));
        }
        // Which of the addresses lead to a server of this user is checked when a connection to one is open.
        if self.addresses.iter().any(Address::is_on_this_machine) {
            return None;
        }
        let address = self.shown();
        Some(format!(
            "the token in {from} is not sent to {address}, because only this repository's own settings name that \
             address; if you trust that server: export DIBS_URL={}",
            shell::word(&address).unwrap_or_default()
        ))
    }

    fn is_for_another(&self, credential: &Credential) -> String {
        let from = &credential.from;
        let other = match credential.addresses.first() {
            Some(address) => format!("the server {}", clean(&address.to_string(), ADDRESS_CHARS_MAX)),
            None => "another server".to_owned(),
        };
        let repair = super::identity::repair(from);
        format!(
            "the token in {from} is for {other} and is not sent to this repository's, {}; to repair this: {repair}",
            self.shown()
        )
    }

    fn shown(&self) -> String {
        let address = self.addresses.first().map(ToString::to_string).unwrap_or_default();
        clean(&address, ADDRESS_CHARS_MAX)
    }
}
