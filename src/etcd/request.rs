//! Short ways to write conditions and operations of a transaction.

use super::messages::{
    Compare, CompareTarget, DeleteRangeRequest, Expected, Operation, PutRequest, RangeRequest, RequestOp,
};

/// The first key after all keys that begin with `prefix`.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // A prefix without a successor: everything to the end.
    vec![0]
}

/// The key exists with this value.
pub fn value_is(key: &str, value: &[u8]) -> Compare {
    compare(key, CompareTarget::Value, Expected::Value(value.to_vec()))
}

/// The key does not exist.
pub fn is_absent(key: &str) -> Compare {
    compare(key, CompareTarget::Version, Expected::Version(0))
}

/// The key exists and was created at this revision.
pub fn create_is(key: &str, revision: i64) -> Compare {
    compare(key, CompareTarget::Create, Expected::CreateRevision(revision))
}

/// The key was last changed at this revision; zero if it does not exist.
pub fn mod_is(key: &str, revision: i64) -> Compare {
    compare(key, CompareTarget::Mod, Expected::ModRevision(revision))
}

fn compare(key: &str, target: CompareTarget, expected: Expected) -> Compare {
    Compare { target: target.into(), key: key.into(), expected: Some(expected) }
}

pub fn put(key: &str, value: &[u8]) -> RequestOp {
    put_leased(key, value, 0)
}

/// The key is deleted when the lease ends.
pub fn put_leased(key: &str, value: &[u8], lease: i64) -> RequestOp {
    operation(Operation::Put(PutRequest { key: key.into(), value: value.to_vec(), lease }))
}

pub fn get(key: &str) -> RequestOp {
    range(RangeRequest { key: key.into(), ..RangeRequest::default() })
}

pub fn range(request: RangeRequest) -> RequestOp {
    operation(Operation::Range(request))
}

/// Deletes the keys from `key` to the one before `range_end`, or only `key` if that is empty.
pub fn delete(key: &str, range_end: &[u8]) -> RequestOp {
    operation(Operation::Delete(DeleteRangeRequest { key: key.into(), range_end: range_end.to_vec() }))
}

fn operation(operation: Operation) -> RequestOp {
    RequestOp { operation: Some(operation) }
}
