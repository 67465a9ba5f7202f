//! Appending, and what to do about an answer that says nothing.
//!
//! An append has an id of its own. After an unclear answer the same append, with the same id and the same expected head, is
//! sent again until the answer is definite. Then either the transaction succeeded; or the entry after the expected head
//! has this id, so an earlier attempt was carried out; or it has another id, so this append was not carried out and
//! never will be. The head is never read to append after it: that would store the records twice.

use super::entry::{self, EntryHeader, Head, encode, encode_entry, encode_records};
use super::{Place, VALUE_BYTES_MAX, ranges};
use crate::engine::{Record, Seq};
use crate::etcd::messages::{KeyValue, RangeRequest, TxnRequest, TxnResponse};
use crate::etcd::{EtcdError, after_prefix, create_is, get, is_absent, put, range, value_is};
use crate::journal::JournalError;

/// Appends the records, and returns them as they were written. `head` is none in a journal that nothing was appended to.
pub fn append(place: &Place, head: Option<Head>, after: Seq, records: &[Record]) -> Result<Vec<u8>, JournalError> {
    let (first, last) = (records[0].seq, records[records.len() - 1].seq);
    let text = encode_records(records);
    let from_byte = head.map_or(0, |head| head.bytes);
    let pieces = if text.len() > VALUE_BYTES_MAX { text.chunks(VALUE_BYTES_MAX).len() } else { 0 };
    let header = EntryHeader { append: uuid::Uuid::now_v7().simple().to_string(), last, from_byte, pieces };
    for (number, piece) in text.chunks(VALUE_BYTES_MAX).enumerate().take(pieces) {
        place.change("append", vec![put(&place.keys.piece(first, &header.append, number), piece)])?;
    }
    let entry = encode_entry(&header, if pieces == 0 { &text } else { b"" });
    let new_head = Head { seq: last, bytes: from_byte + text.len() as u64 };
    let head_key = place.keys.head();
    let expected_head = match head {
        Some(head) => value_is(&head_key, &encode(&head)),
        None => is_absent(&head_key),
    };
    let following = RangeRequest {
        key: place.keys.entry(after.next()).into(),
        range_end: after_prefix(place.keys.entries().as_bytes()),
        limit: 1,
        ..RangeRequest::default()
    };
    let request = TxnRequest {
        compare: vec![expected_head, create_is(place.keys.leader(), place.epoch)],
        success: vec![put(&place.keys.entry(first), &entry), put(&head_key, &encode(&new_head))],
        failure: vec![get(&head_key), range(following)],
    };
    commit(place, after, &header.append, request)?;
    Ok(text)
}

/// Sends the transaction until its outcome is definite.
fn commit(place: &Place, after: Seq, append: &str, request: TxnRequest) -> Result<(), JournalError> {
    let mut tries = 0;
    loop {
        match place.store.txn(request.clone()) {
            Ok(reply) if reply.succeeded => return Ok(()),
            Ok(reply) => return refused(reply, after, append, tries == 0),
            Err(EtcdError::Unclear(_)) if place.leadership.is_possible() => {
                place.store.pause(tries);
                tries += 1;
            }
            // etcd may carry out the transaction that fills it up, and complain all the same.
            Err(EtcdError::NoSpace) => {
                let look = TxnRequest { success: request.failure, ..TxnRequest::default() };
                let reply = place.txn("append", look)?;
                let full = JournalError::Etcd { doing: "append", source: EtcdError::NoSpace };
                return refused(reply, after, append, false).map_err(|_| full);
            }
            Err(source) => return Err(JournalError::Etcd { doing: "append", source }),
        }
    }
}

/// What a transaction whose conditions did not hold says about this append. `is_only` if there was no other attempt.
fn refused(reply: TxnResponse, after: Seq, append: &str, is_only: bool) -> Result<(), JournalError> {
    let mut ranges = ranges(reply).into_iter();
    let (head, following) = (ranges.next().unwrap_or_default(), ranges.next().unwrap_or_default());
    let head: Head = match head.first() {
        Some(KeyValue { key, value, .. }) => entry::decode(key, value)?,
        None => Head::default(),
    };
    let stored = following.first().map(|found| entry::decode_entry(&found.key, &found.value)).transpose()?;
    match stored {
        Some((header, _)) if header.append == append => Ok(()),
        // Another leader's entry is there.
        Some(_) => Err(JournalError::Superseded { expected: after, actual_head: head.seq }),
        None if head.seq == after => Err(JournalError::Deposed),
        None if is_only => Err(JournalError::Superseded { expected: after, actual_head: head.seq }),
        // What followed was stored and has been dropped since, or the journal is another one.
        None => Err(JournalError::Etcd {
            doing: "append",
            source: EtcdError::Refused(format!("the journal goes on after {after}, and that part of it was dropped")),
        }),
    }
}
