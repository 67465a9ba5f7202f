//! Where no server is started by itself.
//!
//! | where | how it is recognised |
//! |---|---|
//! | switched off | `DIBS_AUTOSTART`, else `dibs.autostart`, is `false`, `no`, `off` or `0` |
//! | CI | `CI`, or a variable of one of the known services |
//! | a sandbox | a variable of one of the known sandboxes; sockets are refused; the git directory cannot be written |
//! | another user's repository | the git directory that all worktrees share belongs to another user |
//! | a server with settings of its own | the last server left word of that, see `last_server.rs` |
//!
//! There a check follows the policy for an unreachable server, and a command says why.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::local::data_dir;
use crate::local::environment::Environment;
use crate::local::last_server::LastServer;

/// The variable that takes precedence over the setting.
const VARIABLE: &str = "DIBS_AUTOSTART";

/// Variables that CI services set. A server would be killed with the job, or keep it from ending.
const CI: [&str; 6] = ["CI", "BUILDKITE", "CODEBUILD_BUILD_ID", "JENKINS_URL", "TEAMCITY_VERSION", "TF_BUILD"];

/// Variables that agents set inside of their sandboxes: Codex, the sandbox runtime of Claude Code, Gemini CLI. A server
/// there would be cut off from the network, and killed with the command.
const SANDBOXES: [&str; 4] = ["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "SANDBOX_RUNTIME", "SANDBOX"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A setting says so.
    Off,
    /// Completes the sentence "none was started: …".
    Because(String),
}

/// Why no server may be started here; none if one may.
pub fn find(common_dir: &Path, setting: Option<&str>, environment: &Environment) -> Option<Refusal> {
    let variable = environment.text(VARIABLE).filter(|text| !text.trim().is_empty());
    if variable.as_deref().or(setting).is_some_and(is_no) {
        return Some(Refusal::Off);
    }
    let is_set = |name: &&&str| environment.text(name).is_some_and(|value| !value.is_empty() && !is_no(&value));
    let refused = |why: String| Some(Refusal::Because(why));
    if let Some(name) = CI.iter().find(is_set) {
        return refused(format!("{name} is set, and none is started in CI"));
    }
    if let Some(name) = SANDBOXES.iter().find(is_set) {
        return refused(format!("{name} is set, and none is started in a sandbox"));
    }
    match std::fs::metadata(common_dir) {
        Err(error) => return refused(format!("{} cannot be read ({error})", common_dir.display())),
        Ok(found) if !data_dir::is_own(&found) => {
            return refused(format!("{} belongs to another user", common_dir.display()));
        }
        Ok(_) => {}
    }
    if LastServer::read(&common_dir.join("dibs")).has_own_settings {
        return refused(
            "the last server of this repository was started with options of its own, so start it in the same way"
                .to_owned(),
        );
    }
    match sockets() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            refused(format!("sockets are refused here, as in a sandbox ({error})"))
        }
        _ => None,
    }
}

fn is_no(text: &str) -> bool {
    ["false", "no", "off", "0"].iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}

/// Tries what a server and its clients need.
fn sockets() -> io::Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    UnixDatagram::unbound().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(setting: Option<&str>, variables: &[(&str, &str)]) -> Option<Refusal> {
        let dir = tempfile::tempdir().unwrap();
        find(dir.path(), setting, &Environment::from_pairs(variables.iter().copied()))
    }

    #[test]
    fn the_variable_comes_before_the_setting() {
        assert_eq!(refusal(None, &[]), None);
        for no in ["false", "No", "OFF", " 0 "] {
            assert_eq!(refusal(Some(no), &[]), Some(Refusal::Off), "{no}");
            assert_eq!(refusal(Some("true"), &[("DIBS_AUTOSTART", no)]), Some(Refusal::Off), "{no}");
        }
        assert_eq!(refusal(Some("false"), &[("DIBS_AUTOSTART", "1")]), None);
        assert_eq!(refusal(Some("false"), &[("DIBS_AUTOSTART", " ")]), Some(Refusal::Off));
    }

    #[test]
    fn none_is_started_in_ci_or_in_a_sandbox() {
        for (name, value) in [("CI", "true"), ("TF_BUILD", "True"), ("CODEX_SANDBOX", "seatbelt"), ("SANDBOX", "x")] {
            let Some(Refusal::Because(why)) = refusal(None, &[(name, value)]) else { panic!("{name}") };
            assert!(why.starts_with(&format!("{name} is set")), "{why}");
        }
        assert_eq!(refusal(None, &[("CI", "false"), ("SANDBOX", "")]), None);
    }

    #[test]
    fn none_is_started_in_the_place_of_a_server_with_settings_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let dibs = dir.path().join("dibs");
        std::fs::create_dir(&dibs).unwrap();
        let last = LastServer { port: Some(1), has_own_settings: true };
        last.write(&dibs).unwrap();
        let found = find(dir.path(), None, &Environment::default());
        assert!(matches!(found, Some(Refusal::Because(why)) if why.contains("options of its own")));
        LastServer { has_own_settings: false, ..last }.write(&dibs).unwrap();
        assert_eq!(find(dir.path(), None, &Environment::default()), None);
    }
}
