//! Reads a repository with libgit2, without starting a process.
//!
//! Every result is the one that the git program would give, or `None` if that is not certain; then the program is used.
//! Hooks run with every commit, and a process costs as much as everything else a hook does.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex};

use super::changed::{Change, Entry, Merge};
use super::known_refs::KnownRefs;
use super::walk::index_against_tree;
use super::{Oid, Path, SetBy, Settings};

/// The most refs whose commits are looked up. With more, the git program is faster.
const REFS_MAX: usize = 500;

/// A repository that libgit2 has opened.
#[derive(Clone)]
pub struct Library(Arc<Mutex<git2::Repository>>);

impl Library {
    pub fn new(repository: git2::Repository) -> Library {
        Library(Arc::new(Mutex::new(repository)))
    }

    /// Uses the repository in another file of this room.
    pub(super) fn with<T>(&self, work: impl FnOnce(&git2::Repository) -> Option<T>) -> Option<T> {
        work(&*self.0.lock().ok()?)
    }

    /// Paths that differ between an index file and a commit, which is `HEAD` or an object id.
    pub fn index_against(&self, index: &FilePath, commit: &str) -> Option<Vec<Change>> {
        let repo = self.0.lock().ok()?;
        let tree = match commit {
            "HEAD" => match repo.head() {
                Ok(head) => Some(head.peel_to_commit().ok()?.tree_id()),
                // Before the first commit everything is new.
                Err(error) if error.code() == git2::ErrorCode::UnbornBranch => None,
                Err(_) => return None,
            },
            oid => Some(repo.find_commit(git2::Oid::from_str(oid).ok()?).ok()?.tree_id()),
        };
        index_against_tree(&repo, &std::fs::read(index).ok()?, tree)
    }

    /// The commit that HEAD names.
    pub fn head(&self) -> Option<Oid> {
        let repo = self.0.lock().ok()?;
        let head = repo.head().ok()?.peel_to_commit().ok()?;
        Some(Oid::of_bytes(head.id().as_bytes()))
    }

    /// Whether the repository has this object.
    pub fn has(&self, oid: &Oid) -> Option<bool> {
        Some(self.0.lock().ok()?.odb().ok()?.exists(native(oid)?))
    }

    /// Whether `new` is `old` or one of its descendants.
    pub fn is_descendant(&self, new: &Oid, old: &Oid) -> Option<bool> {
        let (new, old) = (native(new)?, native(old)?);
        Some(new == old || self.0.lock().ok()?.graph_descendant_of(new, old).ok()?)
    }

    /// What a commit has at a path: `Some(None)` if there is nothing.
    pub fn entry(&self, commit: &Oid, path: &Path) -> Option<Option<Entry>> {
        let repo = self.0.lock().ok()?;
        let tree = repo.find_commit(native(commit)?).ok()?.tree().ok()?;
        let found = entry(&tree, path)?;
        Some(found.map(|(mode, oid)| Entry { mode: mode.cast_unsigned(), oid: Oid::of_bytes(oid.as_bytes()) }))
    }

    /// Whether a rule says to ignore this path, whether or not it is tracked.
    pub fn is_ignored(&self, path: &Path) -> Option<bool> {
        self.0.lock().ok()?.is_path_ignored(FilePath::new(std::ffi::OsStr::from_bytes(path))).ok()
    }

    /// Every ref whose name starts with `prefix`.
    pub fn refs(&self, prefix: &str) -> Option<Vec<String>> {
        let repo = self.0.lock().ok()?;
        let found = repo.references_glob(&format!("{prefix}*")).ok()?;
        found.map(|reference| Some(reference.ok()?.name().ok()?.to_owned())).collect()
    }

    /// The commits of the refs in any of these sets. A ref that leads to no commit is left out.
    pub fn commits_of(&self, sets: &[KnownRefs]) -> Option<Vec<Oid>> {
        let repo = self.0.lock().ok()?;
        let mut found = Vec::new();
        for reference in repo.references().ok()? {
            let reference = reference.ok()?;
            let name = String::from_utf8_lossy(reference.name_bytes());
            let belongs = sets.iter().map(|set| set.contains(&name)).collect::<Option<Vec<_>>>()?;
            if belongs.contains(&true) {
                if found.len() == REFS_MAX {
                    return None;
                }
                found.extend(reference.peel_to_commit().ok().map(|commit| Oid::of_bytes(commit.id().as_bytes())));
            }
        }
        Some(found)
    }

    /// The commit that a ref leads to.
    pub fn commit_of(&self, name: &str) -> Option<Oid> {
        let repo = self.0.lock().ok()?;
        let commit = repo.find_reference(name).ok()?.peel_to_commit().ok()?;
        Some(Oid::of_bytes(commit.id().as_bytes()))
    }

    /// A setting in the files of the user and of the repository.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.0.lock().ok()?.config().ok()?.get_string(name).ok()
    }

    /// Whether the repository's own file has this setting.
    pub fn has_local_setting(&self, name: &str) -> Option<bool> {
        let config = self.0.lock().ok()?.config().ok()?.open_level(git2::ConfigLevel::Local).ok()?;
        match config.get_entry(name) {
            Ok(_) => Some(true),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Some(false),
            Err(_) => None,
        }
    }

    /// The configured remotes: the name and the URLs of each.
    pub fn remotes(&self) -> Option<Vec<(String, Vec<String>)>> {
        let repo = self.0.lock().ok()?;
        let mut all = Vec::new();
        for name in repo.remotes().ok()?.iter() {
            let name = name.ok()??;
            let remote = repo.find_remote(name).ok()?;
            let urls = [remote.url().ok().map(str::to_owned), remote.pushurl().ok().flatten().map(str::to_owned)];
            all.push((name.to_owned(), urls.into_iter().flatten().collect()));
        }
        Some(all)
    }

    /// Those of the paths where a merge is what the unchanged parents and one changed side make it.
    pub fn carried_by_merge(&self, merge: &Merge<'_>) -> Option<Vec<bool>> {
        let repo = self.0.lock().ok()?;
        let parents: Vec<git2::Oid> = merge.parents.iter().map(native).collect::<Option<_>>()?;
        let bases = match parents.as_slice() {
            [one, other] => repo.merge_bases(*one, *other).map(|bases| bases.to_vec()),
            several => repo.merge_base_octopus(several).map(|base| vec![base]),
        };
        let bases = match bases {
            Ok(bases) => bases,
            Err(error) if error.code() == git2::ErrorCode::NotFound => Vec::new(),
            Err(_) => return None,
        };
        let tree = |oid: &git2::Oid| repo.find_commit(*oid).ok()?.tree().ok();
        let parents: Vec<git2::Tree<'_>> = parents.iter().map(tree).collect::<Option<_>>()?;
        let bases: Vec<git2::Tree<'_>> = bases.iter().map(tree).collect::<Option<_>>()?;
        let mut carried = Vec::new();
        for (path, equals) in &merge.paths {
            let sides: Vec<_> = parents.iter().map(|parent| entry(parent, path)).collect::<Option<_>>()?;
            let bases: Vec<_> = bases.iter().map(|base| entry(base, path)).collect::<Option<_>>()?;
            let result = |base: &Option<(i32, git2::Oid)>| {
                let mut changed = (0..sides.len()).filter(|&n| sides[n] != *base);
                let Some(first) = changed.next() else { return Some(0) };
                changed.all(|n| sides[n] == sides[first]).then_some(first)
            };
            // Without a common commit git cannot tell which side changed a path; then it is carried if one side has it so.
            let unrelated = bases.is_empty() && equals.iter().any(|equal| *equal);
            let by_all = !bases.is_empty() && bases.iter().all(|base| result(base).is_some_and(|side| equals[side]));
            carried.push(unrelated || by_all);
        }
        Some(carried)
    }

    /// The `dibs.*` settings, as git would read them in the environment of this process.
    pub fn settings(&self) -> Option<Settings> {
        if !is_plain(std::env::vars_os()) || system_has_a_say() {
            return None;
        }
        let repo = self.0.lock().ok()?;
        let config = repo.config().ok()?.snapshot().ok()?;
        let mut found = Vec::new();
        let mut all = config.entries(None).ok()?;
        while let Some(entry) = all.next() {
            let entry = entry.ok()?;
            let name = entry.name().ok()?;
            // libgit2 does not know all conditions for including a file.
            if name.starts_with("include") {
                return None;
            }
            let Some(name) = name.strip_prefix("dibs.") else { continue };
            let value = if entry.has_value() {
                String::from_utf8_lossy(entry.value_bytes()).into_owned()
            } else {
                "true".to_owned()
            };
            found.push((entry.level() as i32, name.to_owned(), value));
        }
        // The most important file last. Within a file the order stays the same.
        found.sort_by_key(|(level, ..)| *level);
        let mut settings = Settings::default();
        for (level, name, value) in found {
            let of_user = (1..git2::ConfigLevel::Local as i32).contains(&level);
            let set_by = if of_user { SetBy::User } else { SetBy::Repository };
            settings.add_of_file(&name, value, set_by, level);
        }
        Some(settings)
    }
}

fn native(oid: &Oid) -> Option<git2::Oid> {
    git2::Oid::from_str(oid.as_str()).ok()
}

/// Mode and object at a path of a tree: `Some(None)` if there is nothing, or a directory.
fn entry(tree: &git2::Tree<'_>, path: &Path) -> Option<Option<(i32, git2::Oid)>> {
    match tree.get_path(FilePath::new(std::ffi::OsStr::from_bytes(path))) {
        Ok(entry) if entry.kind() == Some(git2::ObjectType::Tree) => Some(None),
        Ok(entry) => Some(Some((entry.filemode(), entry.id()))),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Some(None),
        Err(_) => None,
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}

/// The program directories of a git whose system configuration is one of [`SYSTEM_FILES`]. Git puts its program directory
/// first on the PATH of its hooks; a git in another directory may have its configuration anywhere.
const USUAL_PLACES: [&[u8]; 4] =
    [b"/usr/lib/git-core", b"/usr/libexec/git-core", b"/usr/local/libexec/git-core", b"/usr/local/lib/git-core"];
const USUAL_PROGRAMS: [&[u8]; 2] = [b"/usr/bin", b"/usr/local/bin"];
const SYSTEM_FILES: [&str; 2] = ["/etc/gitconfig", "/usr/local/etc/gitconfig"];

/// Whether only the files of the user and of the repository can hold our settings.
fn is_plain(variables: impl Iterator<Item = (OsString, OsString)>) -> bool {
    let mut is_usual = false;
    for (name, value) in variables {
        let value = value.as_bytes();
        match name.as_bytes() {
            b"PATH" => is_usual = finds_usual_git(value),
            b"GIT_CONFIG_GLOBAL" | b"GIT_CONFIG_SYSTEM" | b"GIT_CONFIG" => return false,
            // `git -c`, in its two forms. Usually it sets something else.
            name if name.starts_with(b"GIT_CONFIG_") && has_a_say(value) => return false,
            _ => {}
        }
    }
    is_usual
}

/// Whether the git that this PATH leads to is one of the system's.
fn finds_usual_git(path: &[u8]) -> bool {
    let mut places = path.split(|&b| b == b':').peekable();
    if places.peek().is_some_and(|first| USUAL_PLACES.contains(first)) {
        return true;
    }
    // Not started by git: the first git on the PATH is the one that would be called. Other systems have it elsewhere.
    let has_git = |place: &&[u8]| FilePath::new(std::ffi::OsStr::from_bytes(place)).join("git").exists();
    cfg!(target_os = "linux") && places.find(has_git).is_some_and(|place| USUAL_PROGRAMS.contains(&place))
}

/// Whether the system's configuration could hold one of our settings.
fn system_has_a_say() -> bool {
    SYSTEM_FILES.iter().any(|file| std::fs::read(file).is_ok_and(|text| has_a_say(&text)))
}

/// Whether a configuration could hold one of our settings, itself or by including a file.
fn has_a_say(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    [&b"dibs"[..], b"include"].iter().any(|word| lower.windows(word.len()).any(|window| window == *word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(variables: &[(&str, &str)]) -> bool {
        let path = [("PATH", "/usr/lib/git-core:/usr/bin")];
        let all = path.iter().chain(variables).map(|(name, value)| (OsString::from(name), OsString::from(value)));
        is_plain(all)
    }

    #[test]
    fn whatever_could_add_a_setting_is_left_to_git() {
        assert!(plain(&[]));
        assert!(plain(&[("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/home/dibs.x")]));
        assert!(plain(&[("GIT_CONFIG_PARAMETERS", "'user.name'='x'"), ("GIT_CONFIG_COUNT", "1")]));
        for (name, value) in [
            ("PATH", "/opt/git/libexec/git-core:/nowhere"),
            ("PATH", ""),
            ("GIT_CONFIG_PARAMETERS", "'Dibs.enforce'='off'"),
            ("GIT_CONFIG_PARAMETERS", "'include.path'='x'"),
            ("GIT_CONFIG_KEY_0", "DIBS.url"),
            ("GIT_CONFIG_KEY_3", "includeIf.gitdir:/.path"),
            ("GIT_CONFIG_GLOBAL", "/x"),
            ("GIT_CONFIG_SYSTEM", "/x"),
        ] {
            assert!(!plain(&[(name, value)]), "{name}={value}");
        }
        assert!(!is_plain([].into_iter()), "no PATH");
    }
}
