//! Small values that every rule uses: session ids, record numbers, times.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is cheap to clone.
pub type Text = Arc<str>;

/// The longest session id, in bytes.
pub const SESSION_ID_MAX: usize = 128;

/// The id of a session: `[A-Za-z0-9_.-]{1,128}`.
#[derive(Clone, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::derived_hash_with_manual_eq, reason = "equality is that of the text, only found faster")]
pub struct SessionId(Text);

impl PartialEq for SessionId {
    fn eq(&self, other: &SessionId) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl SessionId {
    /// None if the text is not a session id.
    pub fn parse(text: &str) -> Option<SessionId> {
        let fits = !text.is_empty() && text.len() <= SESSION_ID_MAX;
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        (fits && plain).then(|| SessionId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        SessionId::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a session id")))
    }
}

/// The number of a record: 1 for the first in a repository, then without gaps, except where an earlier copy of the journal
/// was restored (see [`Event::Restored`](super::Event::Restored)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Seq = Seq(0);

    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The number of a wait: that of the record that queued it. A smaller number is ahead in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaiterId(pub u64);

impl WaiterId {
    /// The position of a request that overtakes the queue.
    pub const FIRST: WaiterId = WaiterId(0);

    /// The position of a request that is not in the queue yet.
    pub const LAST: WaiterId = WaiterId(u64::MAX);
}

impl From<Seq> for WaiterId {
    fn from(seq: Seq) -> WaiterId {
        WaiterId(seq.0)
    }
}

impl fmt::Display for WaiterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A moment on the desk's clock, in milliseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn after(self, time: Duration) -> Timestamp {
        let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(ms))
    }

    /// How long until `later`; zero if that is in the past.
    pub fn until(self, later: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// How long a reservation lasts without its holder, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// From the grant, or from the last renewal of this reservation. A record has the number alone.
    Plain(u32),
    /// From the last sign of life of the session; see `idle.rs`. Since format 4: a record has `{"whileSession": 1800}`.
    WhileSession(u32),
}

impl Ttl {
    pub fn seconds(self) -> u32 {
        match self {
            Ttl::Plain(seconds) | Ttl::WhileSession(seconds) => seconds,
        }
    }

    pub fn duration(self) -> Duration {
        Duration::from_secs(self.seconds().into())
    }

    pub fn is_while_session(self) -> bool {
        matches!(self, Ttl::WhileSession(_))
    }
}

/// A [`Ttl::WhileSession`] in a record.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WhileSession {
    while_session: u32,
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Ttl::Plain(seconds) => serializer.serialize_u32(seconds),
            Ttl::WhileSession(seconds) => WhileSession { while_session: seconds }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrMap;

        impl<'de> Visitor<'de> for NumberOrMap {
            type Value = Ttl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or a map with whileSession")
            }

            fn visit_u64<E: serde::de::Error>(self, seconds: u64) -> Result<Ttl, E> {
                let seconds = u32::try_from(seconds);
                seconds.map(Ttl::Plain).map_err(|_| E::custom("a TTL has at most 32 bits"))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Ttl, A::Error> {
                let WhileSession { while_session } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Ttl::WhileSession(while_session))
            }
        }

        deserializer.deserialize_any(NumberOrMap)
    }
}

/// The id of an object in git: 20 bytes (SHA-1) or 32 (SHA-256). All zeros stand for no object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    len: u8,
    bytes: [u8; 32],
}

impl ObjectId {
    /// Reads 40 or 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<ObjectId> {
        if !matches!(text.len(), 40 | 64) {
            return None;
        }
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(ObjectId { len: (text.len() / 2) as u8, bytes })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes[..usize::from(self.len)].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        ObjectId::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an object id")))
    }
}

/// The id of one reservation: `res_` and a UUIDv7 in its simple form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId(pub uuid::Uuid);

impl ReservationId {
    /// None if the text is not a reservation id.
    pub fn parse(text: &str) -> Option<ReservationId> {
        let hex = text.strip_prefix("res_")?;
        (hex.len() == 32).then(|| uuid::Uuid::try_parse(hex).ok().map(ReservationId)).flatten()
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "res_{}", self.0.simple())
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "res_{}", self.0.simple())
    }
}

impl Serialize for ReservationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = *b"res_00000000000000000000000000000000";
        self.0.simple().encode_lower(&mut text[4..]);
        serializer.serialize_str(std::str::from_utf8(&text).expect("hex digits are UTF-8"))
    }
}

impl<'de> Deserialize<'de> for ReservationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        ReservationId::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a reservation id")))
    }
}
