//! The past as the server and the commands see it: the ledger's answers in the shapes of the doors.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::client;
use crate::engine::{SessionId, Timestamp};
use crate::http::{Past, PastPage, PastQuery, PastTrouble, told};
use crate::key::{Key, KeyRules};
use crate::ledger::{Cursor, History, Holding, Query, Reading, Status, Told};
use crate::wire::{self, LedgerHealth};

/// What a server knows of its past.
pub struct Hindsight {
    pub history: History,
    /// Of the ledger, where one is written.
    pub status: Option<Arc<Status>>,
}

impl Past for Hindsight {
    fn page(&self, query: &PastQuery) -> Result<PastPage, PastTrouble> {
        let cursor = match query.cursor.as_deref().map(Cursor::parse) {
            Some(None) => return Err(PastTrouble::Cursor),
            cursor => cursor.flatten(),
        };
        let PastQuery { key, fold_case, session, since, limit, .. } = query.clone();
        let told = self.history.page(&Query { key, fold_case, session, since, limit, cursor });
        let Told { events, next, missing } = told.map_err(|error| PastTrouble::Unreadable(error.to_string()))?;
        let events = events.into_iter().map(|line| (line.record(), line.name)).collect();
        Ok(PastPage { events, next: next.map(|next| next.to_string()), missing })
    }

    fn ledger(&self) -> Option<LedgerHealth> {
        let status = self.status.as_ref()?;
        let lag = status.lag();
        let ok = status.trouble().is_none();
        Some(LedgerHealth { ok, records_behind: lag.records, seconds_behind: lag.time.as_secs() })
    }
}

/// The history without a server: what the ledger at `path` tells.
pub fn of_ledger(path: &Path, which: &client::Past, most: usize) -> Result<wire::History> {
    let history = History::of_ledger(path.to_owned());
    let session = match &which.session {
        Some(id) => match SessionId::parse(id) {
            Some(session) => Some(session),
            None => bail!("{id:?} is not a session id"),
        },
        None => None,
    };
    let key = which.path.as_deref().map(|text| key(text, which.percent)).transpose()?;
    let since = which.since.map(|since| Timestamp(since.0));
    let mut all = wire::History::default();
    let mut cursor = None;
    loop {
        let limit = most - all.events.len();
        let page = history.page(&Query {
            key: key.clone(),
            fold_case: false,
            session: session.clone(),
            since,
            limit,
            cursor,
        })?;
        all.events.extend(page.events.into_iter().map(|line| told(&line.record(), line.name.clone())));
        let missing = page.missing.into_iter().map(|(first, last)| wire::Missing { first: first.0, last: last.0 });
        all.missing.extend(missing);
        cursor = page.next;
        if cursor.is_none() || all.events.len() >= most {
            all.next_cursor = cursor.map(|cursor| cursor.to_string());
            return Ok(all);
        }
    }
}

/// Who holds a key without a server: what the ledger at `path` says.
pub fn holders(path: &Path, text: &str, percent: bool) -> Result<Vec<Holding>> {
    let wanted = key(text, percent)?;
    let reading = Reading::open(path)?;
    let Some(tip) = reading.tip()? else { return Ok(Vec::new()) };
    let live = reading.live(&tip)?;
    Ok(live.holdings().filter(|held| held.key.overlaps(&wanted).is_some()).cloned().collect())
}

fn key(text: &str, percent: bool) -> Result<Key> {
    let rules = KeyRules::default();
    Ok(if percent { Key::parse_percent(text, &rules) } else { Key::parse(text, &rules) }?)
}
