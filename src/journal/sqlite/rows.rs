//! Reads rows back into records, and checks that none is missing.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::engine::{Record, Seq};
use crate::journal::{JournalError, LoadCallback, LoadItem, RecordPage};

/// The most memory that is taken for a snapshot before it is read.
const CAPACITY_MAX: usize = 1 << 30;

/// The last record ever appended.
pub(in crate::journal) fn head(db: &Connection, path: &Path) -> Result<Seq, JournalError> {
    let head = db.prepare_cached("SELECT seq FROM head").and_then(|mut head| head.query_row([], |row| number(row, 0)));
    head.map_err(|error| unread(path, error))
}

/// Reads the newest snapshot and the records after it in one transaction. Returns the last number it read.
pub(in crate::journal) fn load(
    db: &Connection,
    path: &Path,
    up_to: Option<Seq>,
    on: LoadCallback<'_>,
) -> Result<Seq, JournalError> {
    let transaction = db.unchecked_transaction().map_err(|error| unread(path, error))?;
    let mut last_seq = Seq::ZERO;
    if let Some((at, state)) = snapshot(&transaction, path)? {
        on(LoadItem::Snapshot { at, state })?;
        last_seq = at;
    }
    let up_to = up_to.unwrap_or(Seq(u64::MAX));
    walk(&transaction, path, last_seq, |records| {
        for record in records {
            if record.seq > up_to {
                return Ok(false);
            }
            last_seq = record.seq;
            on(LoadItem::Record(record))?;
        }
        Ok(true)
    })?;
    Ok(last_seq)
}

/// Up to `limit` records after `after`.
pub(in crate::journal) fn read(
    db: &Connection,
    path: &Path,
    after: Seq,
    limit: usize,
) -> Result<RecordPage, JournalError> {
    let transaction = db.unchecked_transaction().map_err(|error| unread(path, error))?;
    let oldest = oldest(&transaction, path)?;
    let mut page = RecordPage { records: Vec::new(), oldest };
    // If the requested records were dropped, the page begins with the oldest that is left.
    let after = after.max(Seq(oldest.0.saturating_sub(1)));
    walk(&transaction, path, after, |records| {
        let room = limit - page.records.len();
        page.records.extend(records.into_iter().take(room));
        Ok(page.records.len() < limit)
    })?;
    Ok(page)
}

/// The oldest record that is still stored; if there is none, the number of the next one.
pub(in crate::journal) fn oldest(db: &Connection, path: &Path) -> Result<Seq, JournalError> {
    let oldest = db.query_row("SELECT first FROM batch ORDER BY first LIMIT 1", [], |row| number(row, 0)).optional();
    match oldest.map_err(|error| unread(path, error))? {
        Some(oldest) => Ok(oldest),
        None => head(db, path).map(Seq::next),
    }
}

/// The first record of the newest rows that together have at most so many bytes.
pub(in crate::journal) fn first_within(db: &Connection, path: &Path, bytes: u64) -> Result<Seq, JournalError> {
    let failed = |error| unread(path, error);
    let (mut first, mut left) = (head(db, path)?.next(), i64::try_from(bytes).unwrap_or(i64::MAX));
    let mut statement =
        db.prepare("SELECT first, octet_length(records) FROM batch ORDER BY first DESC").map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        left -= row.get::<_, i64>(1).map_err(failed)?;
        if left < 0 {
            break;
        }
        first = number(row, 0).map_err(failed)?;
    }
    Ok(first)
}

/// The complete current snapshot.
pub(in crate::journal) fn snapshot(db: &Connection, path: &Path) -> Result<Option<(Seq, Vec<u8>)>, JournalError> {
    let failed = |error| unread(path, error);
    let newest: Option<(Seq, i64, i64)> = db
        .query_row("SELECT at, pieces, bytes FROM snapshot ORDER BY at DESC LIMIT 1", [], |row| {
            Ok((number(row, 0)?, row.get(1)?, row.get(2)?))
        })
        .optional()
        .map_err(failed)?;
    let Some((at, pieces, bytes)) = newest else { return Ok(None) };
    // Once, at its full size: it may be very large.
    let mut state = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0).min(CAPACITY_MAX));
    let mut pieces_read = 0_i64;
    let mut statement = db.prepare("SELECT n, bytes FROM snapshot_piece WHERE at = ?1 ORDER BY n").map_err(failed)?;
    let mut rows = statement.query(params![sql(at)]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let n: i64 = row.get(0).map_err(failed)?;
        if n != pieces_read {
            return Err(JournalError::corrupt(path, format!("piece {pieces_read} of its snapshot at {at} is missing")));
        }
        pieces_read += 1;
        state.extend_from_slice(row.get_ref(1).and_then(|bytes| Ok(bytes.as_blob()?)).map_err(failed)?);
    }
    if pieces_read != pieces || state.len() as i64 != bytes {
        let what = format!(
            "its snapshot at {at} should be {bytes} bytes in {pieces} pieces and is {} bytes in {pieces_read} pieces",
            state.len()
        );
        return Err(JournalError::corrupt(path, what));
    }
    Ok(Some((at, state)))
}

/// Passes the records after `after` to `on`, one row at a time, until `on` returns false. Fails at a gap.
pub(in crate::journal) fn walk(
    db: &Connection,
    path: &Path,
    after: Seq,
    mut on: impl FnMut(Vec<Record>) -> Result<bool, JournalError>,
) -> Result<(), JournalError> {
    let failed = |error| unread(path, error);
    // Begins at the row that contains `after`, found by the primary key, and skips it if it has no later record.
    let mut statement = db
        .prepare_cached(
            "SELECT first, last, records FROM batch
              WHERE first >= ifnull((SELECT max(first) FROM batch WHERE first <= ?1), 0) AND last > ?1
              ORDER BY first",
        )
        .map_err(failed)?;
    let mut rows = statement.query(params![sql(after)]).map_err(failed)?;
    let mut last_seq = after;
    while let Some(row) = rows.next().map_err(failed)? {
        let mut records = parse(row, path)?;
        let skip = records.iter().take_while(|record| record.seq <= last_seq).count();
        records.drain(..skip);
        if let Some(first) = records.first()
            && !first.follows(last_seq)
        {
            return Err(JournalError::corrupt(path, format!("after {last_seq} comes {}", first.seq)));
        }
        last_seq = records.last().map_or(last_seq, |record| record.seq);
        if !on(records)? {
            break;
        }
    }
    Ok(())
}

/// A number as SQLite stores it. Saturates: no record has a larger number.
pub(in crate::journal) fn sql(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<Seq> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map(Seq).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn parse(row: &Row<'_>, path: &Path) -> Result<Vec<Record>, JournalError> {
    let failed = |error| unread(path, error);
    let (first, last) = (number(row, 0).map_err(failed)?, number(row, 1).map_err(failed)?);
    let unreadable = |why: &dyn std::fmt::Display| {
        JournalError::corrupt(path, format!("the records {first} to {last} cannot be read: {why}"))
    };
    let text = row.get_ref(2).map_err(failed)?.as_str().map_err(|error| unreadable(&error))?;
    let records: Vec<Record> = serde_json::from_str(text).map_err(|error| unreadable(&error))?;
    if !records.iter().map(|record| record.seq.0).eq(first.0..=last.0) {
        let what = format!("the row of the records {first} to {last} has other records");
        return Err(JournalError::corrupt(path, what));
    }
    Ok(records)
}

fn unread(path: &Path, error: rusqlite::Error) -> JournalError {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => {
            JournalError::corrupt(path, error.to_string())
        }
        error => JournalError::from_sqlite("read", path, error),
    }
}
