//! What happens to a request before its handler runs.
//!
//! [`request_id`] is the only layer, and every request passes it: it gives the request an id, counts it
//! ([`request_count`]), checks its `Host` ([`host_check`]), and refuses it if its connection has only a slot for health
//! checks and admins ([`reserved_slot`]). A large reply waits there for room ([`reply_room`]). [`rate_limit`] is called for tokens that act for a session, once the token is
//! verified.

pub mod host_check;
pub mod rate_limit;
pub mod reply_room;
pub mod request_count;
pub mod request_id;
pub mod reserved_slot;
