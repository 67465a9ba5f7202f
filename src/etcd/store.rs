//! What a journal needs of etcd. The simulation has another implementation, with failures of its own choice.

use std::time::Duration;

use super::messages::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use super::{Etcd, EtcdError};

/// The first pause before an unclear call is sent again; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// Ordered keys with revisions, read and changed by transactions.
pub trait KeyValueStore: Send + Sync {
    /// Reads what is agreed on now, or a state that [`RangeRequest::revision`] names.
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError>;

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError>;

    /// Forgets the states before `revision`.
    fn compact(&self, revision: i64) -> Result<(), EtcdError>;

    /// Waits before an unclear call is sent again for the `tries`th time.
    fn pause(&self, tries: u32) {
        std::thread::sleep(LONGEST_PAUSE.min(FIRST_PAUSE * 2u32.saturating_pow(tries.min(10))));
    }
}

impl KeyValueStore for Etcd {
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        Etcd::range(self, request)
    }

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
        Etcd::txn(self, request)
    }

    fn compact(&self, revision: i64) -> Result<(), EtcdError> {
        Etcd::compact(self, revision)
    }
}
