//! Rebuilding state from a journal: the newest snapshot, then every record after it.
//!
//! This is the only place that turns an [`Image`] into the bytes of a snapshot and back. What images and records mean is
//! up to the [`Replay`] that receives them. A large image is restored while another thread still reads its reservations.

use std::fmt;
use std::sync::mpsc::{SyncSender, sync_channel};

use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};

use super::{JournalError, LoadCallback, LoadItem};
use crate::engine::{Image, Record, ReservationImage, Seq};

/// What the text of an image has before its reservations, which are the last field. It is in no string, where quotes are
/// escaped.
const RESERVATIONS: &[u8] = b",\"reservations\":[";

/// What the text of each reservation begins with, and from how much of the list their number is estimated.
const RESERVATION: &[u8] = b"{\"id\":";
const SAMPLE_BYTES: usize = 64 << 10;

/// From this size on an image has a second thread, which is this many chunks of reservations ahead. Only a few: what is not kept
/// of a chunk should be free again soon, while the thread still takes memory from the same pages.
const LARGE_IMAGE_BYTES: usize = 1 << 20;
const CHUNK: usize = 256;
const CHUNKS_AHEAD: usize = 4;

/// State that can be rebuilt from a journal.
pub trait Replay {
    /// Replaces the state with the state in a snapshot: an image without reservations, and these. Their number is an estimate.
    fn restore(
        &mut self,
        image: Image,
        reservations: &mut dyn Iterator<Item = ReservationImage>,
        expected_count: usize,
    );

    /// Adds the next record.
    fn apply(&mut self, record: &Record);
}

/// Which part of the journal a replay covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRange {
    /// The last record that the snapshot contains; zero where there is no snapshot.
    pub snapshot: Seq,
    /// The last record of the replay.
    pub head: Seq,
}

/// Rebuilds `state` from what `load` reads, which is [`Journal::load`](super::Journal::load) or
/// [`JournalReader::load`](super::JournalReader::load).
pub fn replay(
    load: impl FnOnce(LoadCallback<'_>) -> Result<Seq, JournalError>,
    state: &mut impl Replay,
) -> Result<ReplayRange, JournalError> {
    let mut snapshot = Seq::ZERO;
    let head = load(&mut |loaded| {
        match loaded {
            LoadItem::Snapshot { at, state: bytes } => {
                restore_image(bytes, state).map_err(|error| JournalError::Unreadable {
                    what: format!("the snapshot at {at}"),
                    why: error.to_string(),
                })?;
                snapshot = at;
            }
            LoadItem::Record(record) => state.apply(&record),
        }
        Ok(())
    })?;
    Ok(ReplayRange { snapshot, head })
}

/// The bytes that a snapshot stores for an image.
pub fn encode_image(image: &Image) -> Vec<u8> {
    serde_json::to_vec(image).expect("an image is plain data")
}

fn restore_image(bytes: Vec<u8>, state: &mut impl Replay) -> serde_json::Result<()> {
    if bytes.len() >= LARGE_IMAGE_BYTES
        && let Some((image, reservations)) = split_text(&bytes)
    {
        let (chunks, received) = sync_channel(CHUNKS_AHEAD);
        let read = std::thread::scope(|scope| {
            let read = move || read_reservations(reservations, &chunks);
            match std::thread::Builder::new().name("snapshot".into()).spawn_scoped(scope, read) {
                Ok(reading) => {
                    state.restore(image, &mut received.into_iter().flatten(), estimate(reservations));
                    reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // The system has no thread to give, so this one does both, one after the other.
                Err(_) => {
                    let list: Vec<ReservationImage> = serde_json::from_slice(reservations)?;
                    let expected_count = list.len();
                    state.restore(image, &mut list.into_iter(), expected_count);
                    Ok(())
                }
            }
        });
        give_back(bytes);
        return read;
    }
    let (image, reservations) = serde_json::from_slice::<Image>(&bytes)?.split();
    give_back(bytes);
    let expected_count = reservations.len();
    state.restore(image, &mut reservations.into_iter(), expected_count);
    Ok(())
}

/// Drops a text that may be very large. The allocator would keep its memory for later; the system has it at once.
fn give_back(mut text: Vec<u8>) {
    // SAFETY: asks for a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(usize::MAX);
    let pages = text.as_mut_ptr_range();
    let Some(start) = pages.start.addr().checked_next_multiple_of(page) else { return };
    let end = pages.end.addr() / page * page;
    if start < end {
        // SAFETY: these pages are inside the buffer, which nothing else uses and nothing reads any more.
        unsafe { libc::madvise(pages.start.with_addr(start).cast(), end - start, libc::MADV_DONTNEED) };
    }
}

/// The image without its reservations, and the text of these; none if they are not the last field.
fn split_text(bytes: &[u8]) -> Option<(Image, &[u8])> {
    let start = bytes.windows(RESERVATIONS.len()).position(|window| window == RESERVATIONS)?;
    let image = serde_json::from_slice(&[&bytes[..start], b"}"].concat()).ok()?;
    let list = &bytes[start + RESERVATIONS.len() - 1..];
    Some((image, list.strip_suffix(b"}")?))
}

/// About how many reservations a list has, if all of it is like its beginning.
fn estimate(list: &[u8]) -> usize {
    let sample = &list[..list.len().min(SAMPLE_BYTES)];
    // This begins a reservation, and is in no string, where quotes are escaped.
    let count = sample.windows(RESERVATION.len()).filter(|window| *window == RESERVATION).count();
    count * (list.len() / sample.len().max(1))
}

/// Sends the reservations of a list in chunks.
fn read_reservations(list: &[u8], chunks: &SyncSender<Vec<ReservationImage>>) -> serde_json::Result<()> {
    let mut text = serde_json::Deserializer::from_slice(list);
    text.deserialize_seq(Chunks(chunks))?;
    text.end()
}

struct Chunks<'a>(&'a SyncSender<Vec<ReservationImage>>);

impl<'de> Visitor<'de> for Chunks<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of reservations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK);
            while chunk.len() < CHUNK
                && let Some(one) = list.next_element()?
            {
                chunk.push(one);
            }
            let is_last = chunk.len() < CHUNK;
            // The receiver takes all of them.
            let _ = self.0.send(chunk);
            if is_last {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        Actor, Command, Engine, Mode, Policy, ReservationId, Reserve, SessionId, Timestamp, Ttl, Turn, Want,
    };
    use crate::key::{Key, KeyRules};

    /// An image that is large enough for a second thread, with keys that look like the beginning of the reservations.
    fn large_image() -> Image {
        let (mut engine, session) = (Engine::new(Policy::default()), SessionId::parse("ana").unwrap());
        let mut turn = Turn::at(Timestamp(0));
        let admin = Actor::Admin("test".into());
        let create = Command::Create { session: session.clone(), name: None, feature: None, owner: None };
        engine.execute(&mut turn, &admin, create).unwrap();
        let want = |n: usize| {
            let text = format!("dir/,\"reservations\":[/{}/{n}", "long".repeat(40));
            let key = Key::literal(text.as_bytes(), &KeyRules::default()).unwrap();
            Want { id: ReservationId(uuid::Uuid::from_u128(n as u128)), key, ttl: Ttl::Plain(60) }
        };
        for part in 0..2 {
            let wants = (0..2_100).map(|n| want(part * 10_000 + n)).collect();
            let (session, reason) = (session.clone(), Some("because".into()));
            let ask = Reserve { session, wants, mode: Mode::Exclusive, reason, wait: None, if_version: None };
            engine.execute(&mut turn, &admin, Command::Reserve(ask)).unwrap();
        }
        engine.image()
    }

    #[test]
    fn a_large_image_is_restored_while_it_is_read() {
        let image = large_image();
        let bytes = encode_image(&image);
        assert!(bytes.len() >= LARGE_IMAGE_BYTES && split_text(&bytes).is_some(), "{}", bytes.len());
        let (held, about) = (image.clone().split().1.len(), estimate(split_text(&bytes).unwrap().1));
        assert!((held / 2..=held).contains(&about), "{about} of {held}");
        let mut engine = Engine::new(Policy::default());
        let broken = [&bytes[..bytes.len() - 40], b"]}"].concat();
        restore_image(bytes, &mut engine).unwrap();
        assert!(engine.image() == image);
        assert!(restore_image(broken, &mut engine).is_err());
    }

    #[test]
    fn an_image_with_its_reservations_before_other_fields_is_restored() {
        let image = large_image();
        let mut fields = serde_json::to_value(&image).unwrap();
        let totals = fields.as_object_mut().unwrap().shift_remove("totals").unwrap();
        fields["totals"] = totals;
        let bytes = serde_json::to_vec(&fields).unwrap();
        assert!(split_text(&bytes).is_none());
        let mut engine = Engine::new(Policy::default());
        restore_image(bytes, &mut engine).unwrap();
        assert!(engine.image() == image);
    }
}
