//! How records, the head and the pointer to a snapshot are written in etcd: a line of JSON, and the records as lines.

use serde::{Deserialize, Serialize};

use crate::engine::{Record, Seq};
use crate::journal::JournalError;

/// The first line of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryHeader {
    /// Identifies the append.
    pub append: String,
    pub last: Seq,
    /// The bytes of all records before this entry.
    pub from_byte: u64,
    /// The records are in this many pieces; zero if they follow this line.
    pub pieces: usize,
}

/// The value of the head's key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub seq: Seq,
    /// The bytes of all records that were ever appended.
    pub bytes: u64,
}

/// The value of the snapshot's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotPointer {
    pub at: Seq,
    /// Names its chunks.
    pub id: String,
    pub chunks: usize,
}

/// Records as lines.
pub fn encode_records(records: &[Record]) -> Vec<u8> {
    let mut text = Vec::new();
    for record in records {
        serde_json::to_writer(&mut text, record).expect("records are plain data");
        text.push(b'\n');
    }
    text
}

/// The value of an entry whose records follow the header.
pub fn encode_entry(header: &EntryHeader, records: &[u8]) -> Vec<u8> {
    let mut text = encode(header);
    text.push(b'\n');
    text.extend_from_slice(records);
    text
}

pub fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("headers are plain data")
}

/// The header of an entry, and the records that follow it.
pub fn decode_entry<'a>(key: &[u8], value: &'a [u8]) -> Result<(EntryHeader, &'a [u8]), JournalError> {
    let line = value.iter().position(|b| *b == b'\n').unwrap_or(value.len());
    let (header, rest) = value.split_at(line);
    Ok((decode(key, header)?, rest.strip_prefix(b"\n").unwrap_or(rest)))
}

/// Passes each record to `on`, and returns the last number. The first record must follow `after`, if that is given.
pub fn decode_records(
    key: &[u8],
    lines: &[u8],
    after: Option<Seq>,
    on: &mut dyn FnMut(Record) -> Result<(), JournalError>,
) -> Result<Option<Seq>, JournalError> {
    let mut last = after;
    for line in lines.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let record: Record = decode(key, line)?;
        let seq = record.seq;
        if let Some(last) = last
            && !record.follows(last)
        {
            return Err(damaged(key, &format!("after {last} comes {seq}")));
        }
        last = Some(seq);
        on(record)?;
    }
    Ok(last)
}

pub fn decode<T: for<'de> Deserialize<'de>>(key: &[u8], value: &[u8]) -> Result<T, JournalError> {
    serde_json::from_slice(value).map_err(|error| damaged(key, &error.to_string()))
}

pub fn damaged(key: &[u8], what: &str) -> JournalError {
    JournalError::DamagedKey { key: String::from_utf8_lossy(key).into_owned(), what: what.to_owned() }
}
