//! The names of all keys of a cluster in etcd, below its prefix.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::journal::EtcdKeys;

/// What stays as it is in the name of a repository or node.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Names keys.
#[derive(Debug, Clone)]
pub struct Names {
    prefix: String,
}

impl Names {
    pub fn new(prefix: &str) -> Names {
        Names { prefix: prefix.trim_matches('/').to_owned() }
    }

    /// All keys of the cluster.
    pub fn all(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// What the keys are, and the secret of the nodes.
    pub fn cluster(&self) -> String {
        format!("{}/cluster", self.prefix)
    }

    pub fn nodes(&self) -> String {
        format!("{}/nodes/", self.prefix)
    }

    pub fn node(&self, node: &str) -> String {
        format!("{}{}", self.nodes(), encoded(node))
    }

    /// Who leads, and who shall.
    pub fn live(&self) -> String {
        format!("{}/live/", self.prefix)
    }

    pub fn leader(&self, repository: &str) -> String {
        format!("{}{}/leader", self.live(), encoded(repository))
    }

    /// The node that an operator wants to lead.
    pub fn wanted(&self, repository: &str) -> String {
        format!("{}{}/wanted", self.live(), encoded(repository))
    }

    /// Exists while a journal is copied into the cluster, and as long as that is not finished. No node leads then.
    pub fn import(&self, repository: &str) -> String {
        format!("{}{}/import", self.live(), encoded(repository))
    }

    /// In which etcd the journal was written.
    pub fn origin(&self, repository: &str) -> String {
        format!("{}/origins/{}", self.prefix, encoded(repository))
    }

    /// What the nodes know about logins of browsers.
    pub fn logins(&self) -> String {
        format!("{}/logins/", self.prefix)
    }

    /// Changes with every login that ends.
    pub fn logins_changed(&self) -> String {
        format!("{}changed", self.logins())
    }

    pub fn ended_logins(&self) -> String {
        format!("{}ended/", self.logins())
    }

    pub fn ended_login(&self, id: &str) -> String {
        format!("{}{}", self.ended_logins(), encoded(id))
    }

    pub fn journals(&self) -> String {
        format!("{}/journals/", self.prefix)
    }

    pub fn journal(&self, repository: &str) -> EtcdKeys {
        EtcdKeys::new(&format!("{}{}", self.journals(), encoded(repository)), &self.leader(repository))
    }

    /// The repository whose key this is, below one of the names above.
    pub fn repository_in(&self, below: &str, key: &[u8]) -> Option<String> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(below)?;
        let name = rest.split('/').next()?;
        Some(percent_encoding::percent_decode_str(name).decode_utf8().ok()?.into_owned())
    }
}

fn encoded(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_repository_is_one_part_of_a_key() {
        let names = Names::new("/dibs/");
        let key = names.leader("a/b ü");
        assert_eq!(key, "dibs/live/a%2Fb%20%C3%BC/leader");
        assert_eq!(names.repository_in(&names.live(), key.as_bytes()).unwrap(), "a/b ü");
    }
}
