//! The names of a repository's keys in etcd, below one prefix of its own.

use crate::engine::Seq;

/// Where a repository's journal is in etcd, and which key says who may write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdKeys {
    /// Ends with a slash.
    prefix: String,
    /// Exists while a node leads the repository. The revision that created it is the leader's epoch.
    leader: String,
}

impl EtcdKeys {
    pub fn new(prefix: &str, leader: &str) -> EtcdKeys {
        EtcdKeys { prefix: format!("{}/", prefix.trim_end_matches('/')), leader: leader.to_owned() }
    }

    pub fn leader(&self) -> &str {
        &self.leader
    }

    /// Everything of the journal.
    pub fn all(&self) -> &str {
        &self.prefix
    }

    /// The number of the last record, and how many bytes were ever appended.
    pub fn head(&self) -> String {
        format!("{}head", self.prefix)
    }

    /// Which snapshot is in force.
    pub fn snapshot(&self) -> String {
        format!("{}snapshot", self.prefix)
    }

    /// The records that were appended together, by the number of the first.
    pub fn entry(&self, first: Seq) -> String {
        format!("{}log/{:020}", self.prefix, first.0)
    }

    pub fn entries(&self) -> String {
        format!("{}log/", self.prefix)
    }

    /// A piece of an entry that is too large for one transaction.
    pub fn piece(&self, first: Seq, append: &str, number: usize) -> String {
        format!("{}{number:06}", self.pieces(first, append))
    }

    pub fn pieces(&self, first: Seq, append: &str) -> String {
        format!("{}{append}/", self.pieces_from(first))
    }

    /// The pieces of the entry that begins with this number, and of attempts to write it.
    pub fn pieces_from(&self, first: Seq) -> String {
        format!("{}{:020}/", self.all_pieces(), first.0)
    }

    pub fn all_pieces(&self) -> String {
        format!("{}staged/", self.prefix)
    }

    pub fn chunk(&self, snapshot: &str, number: usize) -> String {
        format!("{}{number:06}", self.chunks(snapshot))
    }

    pub fn chunks(&self, snapshot: &str) -> String {
        format!("{}{snapshot}/", self.all_chunks())
    }

    pub fn all_chunks(&self) -> String {
        format!("{}snapshots/", self.prefix)
    }
}
