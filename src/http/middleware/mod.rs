//! What every request passes on its way to a handler.

pub mod host_check;
pub mod rate_limit;
pub mod request_count;
pub mod request_id;
