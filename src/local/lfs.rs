//! Where Git LFS clients find the server, and which of git's questions for credentials are about it.

use std::path::PathBuf;

use super::ServerAccess;
use crate::client::{Address, Endpoint, url_segment};

/// The server as a Git LFS client addresses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsAddress {
    pub endpoint: Endpoint,
    /// `lfs.url`.
    pub url: String,
    /// The part of it that git's settings for credentials name: scheme, host and port.
    pub origin: String,
    /// The file with the authority of its certificate, if the user has named one for git-dibs.
    pub ca_file: Option<PathBuf>,
}

impl LfsAddress {
    /// None if the server listens only on a socket in the file system, which Git LFS cannot use.
    pub fn of(access: &ServerAccess) -> Option<LfsAddress> {
        let tcp = |endpoint: &&Endpoint| matches!(endpoint.address, Address::Tcp { .. });
        let endpoint = access.endpoints.iter().find(tcp)?;
        let address = LfsAddress::at(endpoint.clone(), access.repo.as_deref());
        Some(LfsAddress { ca_file: access.ca_file.clone(), ..address })
    }

    fn at(endpoint: Endpoint, repo: Option<&str>) -> LfsAddress {
        let base = endpoint.address.to_string();
        let rest = repo.map(|repo| format!("/{}", url_segment(repo))).unwrap_or_default();
        let after_scheme = base.find("://").map_or(0, |at| at + 3);
        let end = base[after_scheme..].find('/').map_or(base.len(), |slash| after_scheme + slash);
        LfsAddress { url: format!("{base}/lfs{rest}"), origin: base[..end].to_owned(), endpoint, ca_file: None }
    }

    /// The path of a call below the server's address.
    pub fn path(&self, call: &str) -> String {
        let base = self.endpoint.address.to_string();
        format!("{}{call}", &self.url[base.len()..])
    }

    /// Whether a question for credentials is about this server.
    pub fn answers(&self, question: &CredentialQuestion) -> bool {
        let asked = Address::parse(&format!("{}://{}", question.protocol, question.host));
        let same_server = match (&asked, &self.endpoint.address) {
            (
                Ok(Address::Tcp { host, port, tls, .. }),
                Address::Tcp { host: own_host, port: own_port, tls: own_tls, .. },
            ) => (host, port, tls) == (own_host, own_port, own_tls),
            _ => false,
        };
        // Behind one address there may be other servers too.
        let own = self.url[self.origin.len()..].trim_start_matches('/');
        let below = |path: &String| {
            let rest = path.trim_start_matches('/').strip_prefix(own);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        same_server && question.path.as_ref().is_none_or(below)
    }
}

/// What git asks a credential helper.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialQuestion {
    pub protocol: String,
    /// With the port, if the address has one.
    pub host: String,
    /// Only if `credential.useHttpPath` is set.
    pub path: Option<String>,
}

impl CredentialQuestion {
    /// Whether it is about the server of this `lfs.url`.
    pub fn is_about(&self, url: &str) -> bool {
        let origin = format!("{}://{}", self.protocol, self.host);
        url.strip_prefix(&origin).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Reads lines of `name=value` up to an empty one. Unknown names are ignored, as git says.
    pub fn parse(text: &str) -> CredentialQuestion {
        let mut question = CredentialQuestion::default();
        for (name, value) in text.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once('=')) {
            match name {
                "protocol" => question.protocol = value.to_owned(),
                "host" => question.host = value.to_owned(),
                "path" => question.path = Some(value.to_owned()),
                _ => {}
            }
        }
        question
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, repo: Option<&str>) -> LfsAddress {
        LfsAddress::at(Endpoint::parse(address).unwrap(), repo)
    }

    #[test]
    fn the_address_names_the_repository_where_it_is_known() {
        let one = at("http://127.0.0.1:3427", None);
        assert_eq!((&*one.url, &*one.origin), ("http://127.0.0.1:3427/lfs", "http://127.0.0.1:3427"));
        assert_eq!(one.path("/locks/verify"), "/lfs/locks/verify");
        let several = at("https://dibs.example/git", Some("a b"));
        assert_eq!(
            (&*several.url, &*several.origin),
            ("https://dibs.example:443/git/lfs/a%20b", "https://dibs.example:443")
        );
        assert_eq!(several.path("/locks"), "/lfs/a%20b/locks");
    }

    #[test]
    fn only_a_question_about_this_server_is_answered() {
        let asked = |address: &LfsAddress, protocol: &str, host: &str, path: Option<&str>| {
            let text = format!("protocol={protocol}\nhost={host}\n");
            let text = path.map_or(text.clone(), |path| format!("{text}path={path}\n")) + "\nhost=evil\n";
            address.answers(&CredentialQuestion::parse(&text))
        };
        let local = at("http://127.0.0.1:3427", None);
        assert!(asked(&local, "http", "127.0.0.1:3427", None));
        assert!(asked(&local, "http", "127.0.0.1:3427", Some("lfs/repo")));
        for (protocol, host, path) in [
            ("https", "127.0.0.1:3427", None),
            ("http", "127.0.0.1", None),
            ("http", "127.0.0.1:3428", None),
            ("http", "localhost:3427", None),
            ("http", "127.0.0.1:3427.evil.example", None),
            ("http", "evil@127.0.0.1:3427", None),
            ("http", "127.0.0.1:3427/lfs", Some("x")),
            ("http", "127.0.0.1:3427", Some("other.git")),
            ("unix", "/x", None),
            ("", "", None),
        ] {
            assert!(!asked(&local, protocol, host, path), "{protocol} {host} {path:?}");
        }
        let public = at("https://dibs.example", None);
        assert!(asked(&public, "https", "dibs.example", None) && asked(&public, "https", "DIBS.example:443", None));
    }
}
