//! The numbers of the contract: what one call may ask for. The server refuses more, so clients know them too.
//!
//! Some of them are defaults that a server's configuration changes; its published document has the ones it uses.

/// The most keys one reserve, release or renewal may name.
pub const RESERVE_KEYS_MAX: usize = 10_000;

/// The most paths one check may name, unless the server is configured otherwise.
pub const CHECK_PATHS_MAX: usize = 100_000;

/// The most paths that a server can be configured to accept in one check.
pub const CHECK_PATHS_CONFIG_MAX: usize = 1_000_000;

/// The most ref updates one announcement of a push may name.
pub const PUSH_UPDATES_MAX: usize = 1_000;

/// The most ref updates one claim of a push may name: as many as a session may announce within the time that an
/// announcement is valid.
pub const CLAIM_UPDATES_MAX: usize = 10_000;

/// The longest name of a ref, in bytes.
pub const REF_BYTES_MAX: usize = 1_024;

/// The longest path or key, in bytes.
pub const KEY_BYTES_MAX: usize = 4096;

/// The longest name of a file or directory in a path, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// The longest a reserve may wait in the queue, in seconds.
pub const WAIT_SECONDS_MAX: u32 = 300;

/// The longest a reservation may last after the last sign of life of its session, in seconds.
pub const IDLE_SECONDS_MAX: u32 = 28_800;

/// The longest reason or note, in characters.
pub const REASON_CHARS_MAX: usize = 1000;

/// The longest display name or feature, in characters.
pub const NAME_CHARS_MAX: usize = 200;

/// The most released keys that one answer lists; it counts all of them.
pub const RELEASED_PATHS_MAX: usize = 10_000;

/// The most items on one page of a list.
pub const PAGE_ITEMS_MAX: u32 = 1000;

/// How long the token of a new session is valid, in seconds, unless the request says otherwise.
pub const TOKEN_SECONDS_DEFAULT: u32 = 24 * 3600;

/// The longest such a token may be valid, in seconds.
pub const TOKEN_SECONDS_MAX: u32 = 30 * 24 * 3600;

/// How long a key may be reserved, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlBounds {
    /// Used when a request names no TTL.
    pub default: u32,
    pub min: u32,
    pub max: u32,
}

impl TtlBounds {
    /// For paths and patterns, unless the server is configured otherwise.
    pub const FILES: TtlBounds = TtlBounds { default: 60, min: 1, max: 300 };

    /// For logical names and resource URIs, unless the server is configured otherwise.
    pub const NAMES: TtlBounds = TtlBounds { default: 1800, min: 1, max: 28_800 };

    /// How long a reservation lasts after the last sign of life of its session, if it is held so.
    pub const IDLE: TtlBounds = TtlBounds { default: 1800, min: 1, max: IDLE_SECONDS_MAX };
}
