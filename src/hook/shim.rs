//! The shell scripts that git runs, and how to recognise them.
//!
//! They are in `hooks/` and part of the binary. Each only finds the program and runs it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Moment;
use crate::text::shell;

/// The text in the second line of every shim of this version.
pub const MARKER: &str = "git-dibs shim v1";

/// The program in a shim before installation.
const PLACEHOLDER: &[u8] = b"'@GIT_DIBS@'";
const PROGRAM_LINE: &[u8] = b"dibs=";

/// Who wrote a hook file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// A shim as it was installed, by this version or an earlier one.
    Ours,
    /// A shim that was edited, or of a later version.
    OursChanged,
    /// Not a shim.
    Foreign,
}

/// The shim for a hook that runs `program`.
pub fn shim(moment: Moment, program: &Path) -> Vec<u8> {
    with_program(template(moment), &shell::quote(program.as_os_str().as_bytes()))
}

/// Who wrote this file.
pub fn whose(moment: Moment, text: &[u8]) -> Whose {
    let unchanged = with_program(text, PLACEHOLDER);
    if unchanged == template(moment) || unchanged == short_note(template(moment)) || unchanged == first_wording(moment)
    {
        return Whose::Ours;
    }
    let second_line = text.split(|&b| b == b'\n').nth(1).unwrap_or_default();
    if second_line.starts_with(b"# git-dibs shim v") { Whose::OursChanged } else { Whose::Foreign }
}

fn template(moment: Moment) -> &'static [u8] {
    match moment {
        Moment::PreCommit => include_bytes!("../../hooks/pre-commit"),
        Moment::PreMergeCommit => include_bytes!("../../hooks/pre-merge-commit"),
        Moment::PrepareCommitMsg => include_bytes!("../../hooks/prepare-commit-msg"),
        Moment::PreApplypatch => include_bytes!("../../hooks/pre-applypatch"),
        Moment::PreRebase => include_bytes!("../../hooks/pre-rebase"),
        Moment::PrePush => include_bytes!("../../hooks/pre-push"),
        Moment::PreReceive => include_bytes!("../../hooks/pre-receive"),
        Moment::ReferenceTransaction => include_bytes!("../../hooks/reference-transaction"),
    }
}

/// The shim from before the note of `pre-commit` named the time at which the process started.
fn short_note(template: &[u8]) -> Vec<u8> {
    let lines = template.split_inclusive(|&b| b == b'\n');
    let is_new = |line: &&[u8]| NOTE_LINES.iter().any(|new| line.starts_with(new.as_bytes()));
    let text = lines.filter(|line| !is_new(line)).collect::<Vec<_>>().concat();
    String::from_utf8_lossy(&text).replace("passed-$PPID-$started", "passed-$PPID").into_bytes()
}

/// How the lines begin that `prepare-commit-msg` did not have then.
const NOTE_LINES: [&str; 5] =
    ["# The name has the number of git's process", "started() {", "stat=", "{ read -r stat ", "started ${stat"];

/// The shim as the first versions installed it. It did the same in other words.
fn first_wording(moment: Moment) -> Vec<u8> {
    let text = short_note(template(moment));
    let text = String::from_utf8_lossy(&text);
    let noun = moment.noun();
    text.replace(&format!("this {noun} was not checked"), &format!("nobody checked this {noun}"))
        .replace("another session holds", "somebody else holds")
        .replace("stops a ref update that brings commits", "stops whatever moves a branch to commits")
        .into_bytes()
}

/// The script with another word for the program.
fn with_program(script: &[u8], word: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = script.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    if let Some(line) = lines.iter_mut().find(|line| line.starts_with(PROGRAM_LINE)) {
        *line = [PROGRAM_LINE, word].concat();
    }
    lines.join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_is_recognised_whatever_program_it_names() {
        for moment in Moment::ALL {
            let text = shim(moment, Path::new("/opt/it's here/git-dibs"));
            assert_eq!(whose(moment, &text), Whose::Ours, "{moment}");
            assert_eq!(whose(moment, template(moment)), Whose::Ours, "{moment}");
            let edited = [text.as_slice(), b"echo more\n"].concat();
            assert_eq!(whose(moment, &edited), Whose::OursChanged, "{moment}");
            assert_eq!(whose(moment, b"#!/bin/sh\necho git-dibs shim v1\n"), Whose::Foreign);
            assert_eq!(whose(moment, b""), Whose::Foreign);
        }
    }

    #[test]
    fn shims_of_earlier_versions_are_recognised() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hooks/0.1.0");
        // Earlier versions did not have `pre-rebase`.
        for moment in Moment::ALL.into_iter().filter(|moment| *moment != Moment::PreRebase) {
            let text = std::fs::read(dir.join(moment.name())).unwrap();
            assert_eq!(whose(moment, &with_program(&text, b"'/usr/bin/git-dibs'")), Whose::Ours, "{moment}");
        }
    }

    #[test]
    fn every_shim_names_its_own_hook_and_is_plain_shell() {
        for moment in Moment::ALL {
            let text = std::str::from_utf8(template(moment)).unwrap();
            assert!(text.starts_with("#!/bin/sh\n") && text.ends_with('\n') && !text.contains('\r'), "{moment}");
            assert!(text.lines().nth(1).unwrap().contains(MARKER), "{moment}");
            assert!(text.contains(&format!("hook {moment} --next")), "{moment}");
            let default = if moment.is_push() { "|| echo block)}\nif" } else { "|| echo warn)}\nif" };
            assert!(
                text.contains(default) && text.contains(&format!("this {} was not checked (", moment.noun())),
                "{moment}"
            );
        }
    }
}
