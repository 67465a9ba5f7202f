//! Logins that were ended before they expired.
//!
//! Logins are not listed anywhere, so a login that signs out is noted here until it would have expired. The notes are saved
//! before the sign-out is answered, so that a restart does not accept the cookie again.
//!
//! The nodes of a cluster share the notes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

/// The most notes. Beyond it, the login that expires first is forgotten.
const ENDED_MAX: usize = 10_000;

/// Writes the notes where a restart finds them.
pub type SaveNotes = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Tells the other nodes of a cluster that the login with this id has ended, and when it would have expired. An error says
/// why they may not know it yet; they are told later.
pub type ShareNote = Box<dyn Fn(&str, i64) -> Result<(), String> + Send + Sync>;

#[derive(Default)]
pub struct EndedLogins {
    /// The id of each login and when it expires, in seconds since 1970.
    notes: Mutex<HashMap<String, i64>>,
    save: OnceLock<SaveNotes>,
    share: OnceLock<ShareNote>,
    /// Held while the notes are written, so that the last file has all of them.
    saving: Mutex<()>,
    /// Tells open streams that a login has ended.
    news: watch::Sender<()>,
}

impl EndedLogins {
    /// Continues with notes that were saved, and saves them with this from now on. Text that is no notes is ignored.
    pub fn keep(&self, saved: &[u8], save: SaveNotes) {
        let saved: HashMap<String, i64> = serde_json::from_slice(saved).unwrap_or_default();
        lock(&self.notes).extend(saved.into_iter().take(ENDED_MAX));
        let _ = self.save.set(save);
    }

    /// Notes that a login has ended. Times are in seconds since 1970.
    pub fn add(&self, id: &str, expires: i64, now: i64) {
        self.add_all([(id.to_owned(), expires)], now);
    }

    fn add_all(&self, ended: impl IntoIterator<Item = (String, i64)>, now: i64) {
        let mut notes = lock(&self.notes);
        notes.retain(|_, expires| *expires > now);
        for (id, expires) in ended {
            if notes.len() >= ENDED_MAX && !notes.contains_key(&id) {
                let first = notes.iter().min_by_key(|(_, expires)| **expires).map(|(id, _)| id.clone());
                first.and_then(|first| notes.remove(&first));
            }
            notes.insert(id, expires);
        }
        drop(notes);
        self.news.send_replace(());
    }

    /// Shares the notes with the other nodes of a cluster from now on.
    pub fn share_with(&self, share: ShareNote) {
        let _ = self.share.set(share);
    }

    /// Takes the notes of all nodes.
    pub fn hear(&self, ended: Vec<(String, i64)>, now: i64) {
        self.add_all(ended.into_iter().filter(|(_, expires)| *expires > now), now);
    }

    /// Changes each time that a login ends.
    pub fn follow(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Tells the other nodes, if there are any. This calls etcd, so it blocks.
    pub fn tell(&self, id: &str, expires: i64) -> Result<(), String> {
        self.share.get().map_or(Ok(()), |share| share(id, expires))
    }

    /// Writes the notes, if they are kept. This writes a file, so it blocks.
    pub fn save(&self) {
        let Some(save) = self.save.get() else { return };
        let _alone = lock(&self.saving);
        let text = serde_json::to_vec(&*lock(&self.notes)).expect("notes are plain data");
        save(&text);
    }

    pub fn contains(&self, id: &str) -> bool {
        lock(&self.notes).contains_key(id)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn notes_are_bounded_and_the_first_to_expire_goes() {
        let ended = EndedLogins::default();
        for n in 0..ENDED_MAX as i64 {
            lock(&ended.notes).insert(n.to_string(), 1_000 + n);
        }
        ended.add("new", 50_000, 0);
        assert!(!ended.contains("0") && ended.contains("1") && ended.contains("new"));
        ended.add("newer", 50_000, 1_100);
        assert!(!ended.contains("100") && ended.contains("101"), "what has expired goes first");
    }

    #[test]
    fn what_other_nodes_have_ended_is_noted_and_streams_hear_of_it() {
        let ended = EndedLogins::default();
        let news = ended.follow();
        ended.hear(vec![("a".to_owned(), 100), ("over".to_owned(), 10)], 50);
        assert!(ended.contains("a") && !ended.contains("over") && news.has_changed().unwrap());
    }

    #[test]
    fn saved_notes_are_read_again_and_other_text_is_ignored() {
        let file = Arc::new(Mutex::new(Vec::new()));
        let copy = file.clone();
        let ended = EndedLogins::default();
        ended.keep(b"{not json", Box::new(move |text| *lock(&copy) = text.to_vec()));
        ended.add("over", 10, 0);
        ended.add("a", 100, 50);
        ended.save();
        let again = EndedLogins::default();
        again.keep(&lock(&file), Box::new(|_| {}));
        assert!(again.contains("a") && !again.contains("over"));
    }
}
