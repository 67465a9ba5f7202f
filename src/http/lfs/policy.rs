//! What the configuration says about locks of Git LFS.

use crate::engine::Text;

/// Seven days: people lock a file for as long as they work on it.
const TTL_SECONDS: u32 = 7 * 24 * 3600;

/// `lfs-ttl` and `lfs-force` of `[policy]`, and `[lfs]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LfsPolicy {
    /// How long a lock lasts after its owner last listed or verified locks. The protocol itself knows no end.
    pub ttl_seconds: u32,
    pub force: LfsForce,
    /// The LFS server that stores the objects; `{repo}` in it stands for the repository's name.
    pub forward: Option<Text>,
}

/// Who may remove the lock of another session with `git lfs unlock --force`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LfsForce {
    /// Only a token with scope admin.
    Admin,
    /// Every token that may lock.
    Anyone,
}

impl Default for LfsPolicy {
    fn default() -> Self {
        Self { ttl_seconds: TTL_SECONDS, force: LfsForce::Admin, forward: None }
    }
}
