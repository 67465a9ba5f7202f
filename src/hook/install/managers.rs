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
        use Moment::{PreApplypatch, PreCommit, PreMergeCommit, PrePush, PrepareCommitMsg};
        match self {
            Manager::Lefthook => true,
            Manager::Husky => matches!(moment, PreCommit | PreMergeCommit | PrepareCommitMsg | PreApplypatch | PrePush),
            Manager::PreCommit => matches!(moment, PreCommit | PreMergeCommit | PrepareCommitMsg | PrePush),
        }
    }

    /// What to add to its configuration.
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
                text += "Add to lefthook.yml, then run: lefthook install\n";
                for moment in moments {
                    let stdin = if moment.reads_stdin() { "\n        use_stdin: true" } else { "" };
                    text += &format!("  {moment}:\n    jobs:\n      - name: git-dibs\n");
                    text += &format!("        run: git-dibs hook {moment} -- {{0}}{stdin}\n");
                }
            }
            Manager::PreCommit => {
                text += "Add to .pre-commit-config.yaml:\n  - repo: local\n    hooks:\n";
                for moment in moments {
                    text += &format!("      - id: git-dibs-{moment}\n        name: git-dibs {moment}\n");
                    text += &format!("        entry: git-dibs hook {moment} --\n        language: system\n");
                    text += &format!("        stages: [{moment}]\n");
                    text += "        pass_filenames: false\n        always_run: true\n";
                }
                let types: String = moments.iter().map(|moment| format!(" -t {moment}")).collect();
                text += &format!("then run: pre-commit install{types}\n");
            }
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
        insta::assert_snapshot!(Manager::Lefthook.snippet(&moments), @r"
        lefthook manages the hooks here, so nothing was written. Add to lefthook.yml, then run: lefthook install
          pre-commit:
            jobs:
              - name: git-dibs
                run: git-dibs hook pre-commit -- {0}
          pre-push:
            jobs:
              - name: git-dibs
                run: git-dibs hook pre-push -- {0}
                use_stdin: true
        ");
        insta::assert_snapshot!(Manager::PreCommit.snippet(&moments), @r"
        pre-commit manages the hooks here, so nothing was written. Add to .pre-commit-config.yaml:
          - repo: local
            hooks:
              - id: git-dibs-pre-commit
                name: git-dibs pre-commit
                entry: git-dibs hook pre-commit --
                language: system
                stages: [pre-commit]
                pass_filenames: false
                always_run: true
              - id: git-dibs-pre-push
                name: git-dibs pre-push
                entry: git-dibs hook pre-push --
                language: system
                stages: [pre-push]
                pass_filenames: false
                always_run: true
        then run: pre-commit install -t pre-commit -t pre-push
        ");
        insta::assert_snapshot!(outside_snippet(Path::new("/home/x/hooks"), &moments[..1]), @r#"
        core.hooksPath is /home/x/hooks, outside this repository, so nothing was written. Add to the scripts there, before anything that reads stdin (or use git 2.54, which needs none of this):
          pre-commit: [ ! -d "$(git rev-parse --git-common-dir)/dibs" ] || git-dibs hook pre-commit -- "$@" || exit
        "#);
    }
}
