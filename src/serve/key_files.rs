//! Watches the secret file and the JWKS file, so that keys can be rotated without a restart.

use std::sync::Arc;
use std::time::Duration;

use super::discovery::DiscoveryFiles;
use crate::token::Keyring;

/// How often the files are checked for a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reloads the keys whenever a file changes. While a file cannot be used, the keys stay the same, and the reason is logged
/// once.
pub async fn watch(keyring: Arc<Keyring>, discovery: Arc<DiscoveryFiles>) {
    let mut last_error = None;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        match keyring.reload() {
            Ok(changed) => {
                if changed {
                    tracing::info!("a key file has changed; its keys are in use now");
                    // The read tokens were signed with the old secret and are not valid any more.
                    discovery.write_or_warn();
                }
                last_error = None;
            }
            Err(error) => {
                let sentence = Some(error.to_string());
                if last_error != sentence {
                    tracing::warn!(%error, "a key file cannot be used; the keys stay the same until it is repaired");
                    last_error = sentence;
                }
            }
        }
    }
}
