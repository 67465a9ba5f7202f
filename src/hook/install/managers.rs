//! Hook managers: programs that own a repository's hooks, and what to add to their configuration.

use std::path::Path;

use super::super::Moment;

/// A hook manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// husky: scripts in `.husky`, and a generated directory `.husky/_` that git uses.
    Husky,
    /// lefthook.
    Lefthook,
    /// pre-commit, and prek, which reads the same file.
    PreCommit,
}

impl Manager {
    /// The manager that owns the hooks of a worktree, recognised by its files.
    pub fn of(top: &Path, hooks: &Path) -> Option<Manager> {
        if top.join(".husky").exists() || hooks.components().any(|part| part.as_os_str() == ".husky") {
            return Some(Manager::Husky);
        }
        let is_used = |manager: &Manager| manager.config_files().iter().any(|name| top.join(name).exists());
        [Manager::Lefthook, Manager::PreCommit].into_iter().find(is_used)
    }

    /// The files that may hold its whole configuration, relative to the top of the worktree. Husky has none: it has a
    /// script for each hook.
    pub fn config_files(self) -> Vec<String> {
        match self {
            Manager::Husky => Vec::new(),
            Manager::Lefthook => {
                let stems = ["lefthook", ".lefthook", ".config/lefthook"];
                let extensions = ["yml", "yaml", "toml", "json"];
                stems.iter().flat_map(|stem| extensions.map(|extension| format!("{stem}.{extension}"))).collect()
            }
            Manager::PreCommit => [".pre-commit-config.yaml", ".pre-commit-config.yml"].map(str::to_owned).to_vec(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Manager::Husky => "husky",
            Manager::Lefthook => "lefthook",
            Manager::PreCommit => "pre-commit",
        }
    }

    /// Where its users configure what runs, for messages.
    pub fn config(self) -> &'static str {
        match self {
            Manager::Husky => ".husky/",
            Manager::Lefthook => "lefthook.yml",
            Manager::PreCommit => ".pre-commit-config.yaml",
        }
    }

    /// Whether it can run this hook.
    pub fn runs(self, moment: Moment) -> bool {
        use Moment::{PreApplypatch, PreCommit, PreMergeCommit, PrePush, PreRebase, PrepareCommitMsg};
        match self {
            Manager::Lefthook => true,
            Manager::Husky => {
                matches!(moment, PreCommit | PreMergeCommit | PrepareCommitMsg | PreApplypatch | PreRebase | PrePush)
            }
            Manager::PreCommit => matches!(moment, PreCommit | PreMergeCommit | PrepareCommitMsg | PrePush),
        }
    }

    /// Whether its users must add something to its configuration.
    ///
    /// Not with pre-commit: it runs a hook file that was there before beside its own, and ours runs the one of pre-commit.
    /// In its configuration a push would be checked for its first ref only, and warnings would be hidden.
    pub fn needs_snippet(self) -> bool {
        self != Manager::PreCommit
    }

    /// What to add to its configuration; see [`Manager::needs_snippet`].
    pub fn snippet(self, moments: &[Moment]) -> String {
        let mut text = format!("{} manages the hooks here, so nothing was written. ", self.name());
        match self {
            Manager::Husky => {
                text += "Add this line to each of these files, or create the file with this line alone:\n";
                for moment in moments {
                    text += &format!("  .husky/{moment}: git-dibs hook {moment} -- \"$@\"\n");
                }
            }
            Manager::Lefthook => {
                // A script always runs. A `run` line does not: lefthook leaves it out if it finds no files that were
                // added or changed, and so a push that only deletes files would not be checked.
                text += "Make these scripts:\n";
                for moment in moments {
                    let script = format!("exec git-dibs hook {moment} -- \"$@\"");
                    text += &format!("  mkdir -p .lefthook/{moment} && echo '{script}' >.lefthook/{moment}/git-dibs\n");
                }
                text += "Add to lefthook.yml, then run: lefthook install\n";
                for moment in moments {
                    let stdin = if moment.reads_stdin() { "\n        use_stdin: true" } else { "" };
                    text += &format!("  {moment}:\n    jobs:\n      - script: git-dibs\n        runner: sh{stdin}\n");
                }
            }
            Manager::PreCommit => {}
        }
        text
    }
}

/// What to add to scripts outside the repository, which other repositories may use too.
pub fn outside_snippet(dir: &Path, moments: &[Moment]) -> String {
    let dir = dir.display();
    let mut text = format!(
        "core.hooksPath is {dir}, outside this repository, so nothing was written. Add to the scripts there, before \
         anything that reads stdin (or use git 2.54, which needs none of this):\n"
    );
    for moment in moments {
        // Other repositories use the same scripts, and git-dibs may not be installed there.
        let mine = "[ ! -d \"$(git rev-parse --git-common-dir)/dibs\" ]";
        text += &format!("  {moment}: {mine} || git-dibs hook {moment} -- \"$@\" || exit\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managers_are_recognised_by_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let of = |hooks: &str| Manager::of(dir.path(), Path::new(hooks));
        assert_eq!(of("/x/.git/hooks"), None);
        assert_eq!(of("/x/.husky/_"), Some(Manager::Husky));
        std::fs::write(dir.path().join(".pre-commit-config.yaml"), "").unwrap();
        assert_eq!(of("/x/.git/hooks"), Some(Manager::PreCommit));
        std::fs::write(dir.path().join(".lefthook.toml"), "").unwrap();
        assert_eq!(of("/x/.git/hooks"), Some(Manager::Lefthook));
        std::fs::create_dir(dir.path().join(".husky")).unwrap();
        assert_eq!(of("/x/.git/hooks"), Some(Manager::Husky));
    }

    #[test]
    fn snippets_are_ready_to_paste() {
        let moments = [Moment::PreCommit, Moment::PrePush];
        insta::assert_snapshot!(Manager::Husky.snippet(&moments), @r#"
        husky manages the hooks here, so nothing was written. Add this line to each of these files, or create the file with this line alone:
          .husky/pre-commit: git-dibs hook pre-commit -- "$@"
          .husky/pre-push: git-dibs hook pre-push -- "$@"
        "#);
        insta::assert_snapshot!(Manager::Lefthook.snippet(&moments), @r#"
        lefthook manages the hooks here, so nothing was written. Make these scripts:
          mkdir -p .lefthook/pre-commit && echo 'exec git-dibs hook pre-commit -- "$@"' >.lefthook/pre-commit/git-dibs
          mkdir -p .lefthook/pre-push && echo 'exec git-dibs hook pre-push -- "$@"' >.lefthook/pre-push/git-dibs
        Add to lefthook.yml, then run: lefthook install
          pre-commit:
            jobs:
              - script: git-dibs
                runner: sh
          pre-push:
            jobs:
              - script: git-dibs
                runner: sh
                use_stdin: true
        "#);
        insta::assert_snapshot!(outside_snippet(Path::new("/home/x/hooks"), &moments[..1]), @r#"
        core.hooksPath is /home/x/hooks, outside this repository, so nothing was written. Add to the scripts there, before anything that reads stdin (or use git 2.54, which needs none of this):
          pre-commit: [ ! -d "$(git rev-parse --git-common-dir)/dibs" ] || git-dibs hook pre-commit -- "$@" || exit
        "#);
    }
}
