//! What a person typed, or what git listed, as the keys a server understands.
//!
//! Files and patterns are relative to the current directory, like git's own pathspecs; a leading `:/` makes them relative
//! to the top of the repository. A name that exists in the work tree or the index is that file, also if it looks like a
//! pattern. Logical keys and resource URIs are the same everywhere. Paths from git are literal, byte for byte.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::git::{self, Git, Repo};
use crate::text::{percent, terminal};
use crate::wire::Encoding;

/// An argument that cannot be a key; the text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(String);

/// Keys to send to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    names: Vec<Name>,
    /// Arguments that look like patterns but are the names of files.
    taken_literally: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// A key as the HTTP API writes it.
    Text(String),
    /// One literal path, which may hold any byte.
    Literal(Vec<u8>),
}

/// What typed names are relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cwd {
    /// The top of the work tree; none outside of one.
    root: Option<PathBuf>,
    /// The current directory relative to `root`, without slashes at its ends.
    prefix: Vec<u8>,
}

impl Cwd {
    /// The current directory in this repository. Without a repository, names are read as if typed at its top.
    pub fn of(repo: Option<&Repo>) -> Cwd {
        let Some(work_dir) = repo.and_then(|repo| repo.work_dir.as_deref()) else { return Cwd::default() };
        let Ok(root) = work_dir.canonicalize() else { return Cwd::default() };
        let here = std::env::current_dir().and_then(|dir| dir.canonicalize()).unwrap_or_default();
        let prefix = here.strip_prefix(&root).map(|below| below.as_os_str().as_bytes().to_vec());
        Cwd { prefix: prefix.unwrap_or_default(), root: Some(root) }
    }

    /// How to type a key that the server showed, from the current directory.
    pub fn typed(&self, shown: &str) -> String {
        let is_name = leading_word(shown.as_bytes()).is_some_and(|word| word != b"file");
        if self.prefix.is_empty() || is_name { shown.to_owned() } else { format!(":/{shown}") }
    }

    fn top(&self) -> Cwd {
        Cwd { root: self.root.clone(), prefix: Vec::new() }
    }
}

impl Names {
    /// Reads command line arguments.
    pub fn typed(cwd: &Cwd, args: &[OsString]) -> Result<Names, BadName> {
        let mut names = Names::default();
        for typed in args.iter().map(|arg| arg.as_bytes()) {
            let argument = read(cwd, typed).map_err(BadName)?;
            if argument.taken_literally {
                names.taken_literally.push(typed.to_vec());
            }
            names.names.push(argument.name);
        }
        Ok(names)
    }

    /// A sentence for each argument that looks like a pattern but is the name of a file.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.taken_literally
            .iter()
            .map(|typed| format!("{} exists here, so it is taken as a name, not as a pattern", terminal::path(typed)))
    }

    /// Takes paths that git listed.
    pub fn from_git(paths: Vec<git::Path>) -> Names {
        Names { names: paths.into_iter().map(Name::Literal).collect(), ..Names::default() }
    }

    /// Takes keys that are already written as the HTTP API writes them.
    pub fn from_keys(keys: impl IntoIterator<Item = String>) -> Names {
        Names { names: keys.into_iter().map(Name::Text).collect(), ..Names::default() }
    }

    /// The keys as they are sent, in order.
    pub fn texts(&self) -> Vec<String> {
        let write = |name: &Name| match name {
            Name::Text(text) => text.clone(),
            Name::Literal(bytes) => format!("file:{}", percent::encode(bytes)),
        };
        self.names.iter().map(write).collect()
    }

    /// The `encoding` to send with the keys: literal paths are always percent-encoded, because they may hold any byte.
    pub fn encoding(&self) -> Option<Encoding> {
        self.names.iter().any(|name| matches!(name, Name::Literal(_))).then_some(Encoding::Percent)
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }
}

/// Splits a list of paths, as git prints it, at line feeds or NUL bytes.
pub fn split_paths(bytes: &[u8], separator: u8) -> Vec<git::Path> {
    bytes.split(|&b| b == separator).filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}

/// One argument.
struct Argument {
    name: Name,
    /// It looks like a pattern, but it is the name of a file.
    taken_literally: bool,
}

impl From<Name> for Argument {
    fn from(name: Name) -> Argument {
        Argument { name, taken_literally: false }
    }
}

/// Reads one argument; the error is a sentence.
fn read(cwd: &Cwd, typed: &[u8]) -> Result<Argument, String> {
    if let Some(rest) = typed.strip_prefix(b":/") {
        return read(&cwd.top(), rest);
    }
    if typed.starts_with(b":(") || typed.starts_with(b":!") || typed.starts_with(b":^") {
        return Err(format!(
            "{} looks like a git pathspec with magic, and git-dibs knows only :/; to name a file like this, write file:{0}",
            terminal::path(typed)
        ));
    }
    match leading_word(typed) {
        Some(b"file") => match relative(cwd, &typed[b"file:".len()..], false)? {
            // The server refuses a literal directory with a sentence that says why.
            _ if typed.ends_with(b"/") => Ok(Name::Text(String::from_utf8_lossy(typed).into_owned()).into()),
            Resolved { path, .. } => Ok(Name::Literal(path).into()),
        },
        Some(_) => match std::str::from_utf8(typed) {
            Ok(name) => Ok(Name::Text(name.to_owned()).into()),
            Err(_) => {
                Err(format!("{} is not UTF-8; if it is a file, write file: before its name", terminal::path(typed)))
            }
        },
        None if has_pattern(typed) && exists(cwd, typed) => {
            Ok(Argument { name: file(cwd, typed)?, taken_literally: true })
        }
        None => file_or_pattern(cwd, typed).map(Argument::from),
    }
}

/// Whether there is a file or directory of exactly this name, in the work tree or in the index.
fn exists(cwd: &Cwd, typed: &[u8]) -> bool {
    let (Some(root), Ok(found)) = (&cwd.root, relative(cwd, typed, false)) else { return false };
    if found.path.is_empty() {
        return false;
    }
    if root.join(OsStr::from_bytes(&found.path)).symlink_metadata().is_ok() {
        return true;
    }
    // Stars and question marks are hardly ever part of a file name. For those alone, git is not asked.
    if !typed.iter().any(|byte| matches!(byte, b'[' | b'{')) {
        return false;
    }
    let mut pathspec = b":(top,literal)".to_vec();
    pathspec.extend(&found.path);
    let listed = Git::here().args(["ls-files", "-z", "--"]).arg(OsStr::from_bytes(&pathspec)).output();
    listed.is_ok_and(|listed| !listed.is_empty())
}

/// A file, or everything in a directory, whose name may look like a pattern.
fn file(cwd: &Cwd, typed: &[u8]) -> Result<Name, String> {
    let found = relative(cwd, typed, false)?;
    match std::str::from_utf8(&found.path) {
        Ok(path) if found.is_directory => Ok(Name::Text(format!("{}/", escape_pattern(path)))),
        _ => Ok(Name::Literal(found.path)),
    }
}

fn file_or_pattern(cwd: &Cwd, typed: &[u8]) -> Result<Name, String> {
    let is_pattern = has_pattern(typed) && std::str::from_utf8(typed).is_ok();
    let found = relative(cwd, typed, is_pattern)?;
    let Ok(path) = std::str::from_utf8(&found.path) else {
        if is_pattern {
            return Err(format!(
                "{} cannot be used as a pattern here, because the name of the current directory is not UTF-8",
                terminal::path(typed)
            ));
        }
        return Ok(Name::Literal(found.path));
    };
    if path.is_empty() {
        // The top of the repository. The server refuses it with a sentence that names the right pattern.
        return Ok(Name::Text(".".to_owned()));
    }
    let is_plain = !has_pattern(path.as_bytes()) && leading_word(path.as_bytes()).is_none();
    match (is_pattern || found.is_directory, is_plain) {
        (false, true) => Ok(Name::Text(path.to_owned())),
        (false, false) => Ok(Name::Literal(found.path)),
        (true, _) => {
            let (above, own) = path.split_at(found.above);
            let slash = if found.is_directory && !own.ends_with('/') { "/" } else { "" };
            Ok(Name::Text(format!("{}{own}{slash}", escape_pattern(above))))
        }
    }
}

/// A typed name, relative to the top of the repository.
struct Resolved {
    path: Vec<u8>,
    /// The length of the part of `path` that comes from the current directory and was not typed.
    above: usize,
    /// The name ended with a slash, or was `.` or `..`.
    is_directory: bool,
}

/// Resolves a typed name against the current directory. From the first component with a pattern on, `.` and `..` stay as
/// they are: a slash inside braces does not separate directories.
fn relative(cwd: &Cwd, typed: &[u8], is_pattern: bool) -> Result<Resolved, String> {
    let (mut above, rest) = match typed.strip_prefix(b"/") {
        None => (components(&cwd.prefix), typed),
        Some(_) => (Vec::new(), inside(cwd, typed)?),
    };
    let mut own: Vec<&[u8]> = Vec::new();
    let mut is_directory = rest.ends_with(b"/");
    let mut left = rest;
    loop {
        let (component, next) = match left.iter().position(|&b| b == b'/') {
            Some(slash) => (&left[..slash], Some(&left[slash + 1..])),
            None => (left, None),
        };
        if is_pattern && has_pattern(component) {
            own.push(left);
            is_directory = false;
            break;
        }
        match component {
            b"" => {}
            b"." => is_directory |= next.is_none(),
            b".." => {
                is_directory |= next.is_none();
                if own.pop().is_none() && above.pop().is_none() {
                    return Err(outside(cwd, typed));
                }
            }
            name => own.push(name),
        }
        match next {
            Some(next) => left = next,
            None => break,
        }
    }
    let mut path = above.join(&b'/');
    if !path.is_empty() && !own.is_empty() {
        path.push(b'/');
    }
    let above = path.len();
    path.extend(own.join(&b'/'));
    Ok(Resolved { path, above, is_directory })
}

/// The part of an absolute path below the top of the work tree.
fn inside<'a>(cwd: &Cwd, typed: &'a [u8]) -> Result<&'a [u8], String> {
    let Some(root) = &cwd.root else {
        return Err(format!(
            "{} is absolute, and there is no work tree here that could contain it",
            terminal::path(typed)
        ));
    };
    match typed.strip_prefix(root.as_os_str().as_bytes()) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => Ok(rest),
        _ => {
            // The path may go through a symlink. Components of a pattern do not exist and are skipped.
            let resolved = Path::new(std::ffi::OsStr::from_bytes(typed)).ancestors().find_map(|ancestor| {
                let real = ancestor.canonicalize().ok()?;
                (real == *root).then_some(ancestor.as_os_str().len())
            });
            resolved.map(|length| &typed[length..]).ok_or_else(|| outside(cwd, typed))
        }
    }
}

fn outside(cwd: &Cwd, typed: &[u8]) -> String {
    let root = cwd.root.as_ref().map(|root| format!(" at {}", root.display())).unwrap_or_default();
    format!("{} is outside the repository{root}", terminal::path(typed))
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&b| b == b'/').filter(|component| !component.is_empty()).collect()
}

fn has_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b'{'))
}

/// The word before a leading `:`, which marks a logical key, a URI or `file:`.
fn leading_word(text: &[u8]) -> Option<&[u8]> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-');
    let end = text.iter().position(|&b| !is_word(b))?;
    (text[end] == b':' && text[0].is_ascii_alphabetic()).then(|| &text[..end])
}

/// Escapes the directory names before a pattern so that they match only themselves.
fn escape_pattern(above: &str) -> String {
    let mut out = String::with_capacity(above.len());
    for (at, c) in above.char_indices() {
        let hides_a_word = at == 0 && leading_word(above.as_bytes()).is_some();
        if matches!(c, '*' | '?' | '[' | '{' | '}') || hides_a_word {
            out.extend(['[', c, ']']);
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Claim, Key, KeyRules};

    fn os(bytes: &[u8]) -> OsString {
        std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec())
    }

    fn cwd(prefix: &str) -> Cwd {
        Cwd { root: Some("/home/ann/app".into()), prefix: prefix.as_bytes().to_vec() }
    }

    /// The key that is sent for one argument.
    fn sent(prefix: &str, typed: &str) -> String {
        Names::typed(&cwd(prefix), &[os(typed.as_bytes())]).unwrap().texts().remove(0)
    }

    fn refused(prefix: &str, typed: &str) -> String {
        Names::typed(&cwd(prefix), &[os(typed.as_bytes())]).unwrap_err().to_string()
    }

    #[test]
    fn files_are_relative_to_the_current_directory() {
        for (prefix, typed, expected) in [
            ("", "a.rs", "a.rs"),
            ("src", "a.rs", "src/a.rs"),
            ("src/x", "./a.rs", "src/x/a.rs"),
            ("src/x", "../a.rs", "src/a.rs"),
            ("src/x", "../../a.rs", "a.rs"),
            ("src/x", "y/../a.rs", "src/x/a.rs"),
            ("src", "x/", "src/x/"),
            ("src", ".", "src/"),
            ("src", "./", "src/"),
            ("src/x", "..", "src/"),
            ("src", "..", "."),
            ("", ".", "."),
            ("src", "-f", "src/-f"),
            ("src", "a:b", "a:b"),
            ("src", "./a:b", "src/a:b"),
            ("src", "/home/ann/app/b.rs", "b.rs"),
            ("src", "/home/ann/app/x/../b.rs", "b.rs"),
            ("src", "/home/ann/app", "."),
            ("", "", "."),
        ] {
            assert_eq!(sent(prefix, typed), expected, "{typed} in {prefix}");
        }
    }

    #[test]
    fn patterns_are_relative_too() {
        for (prefix, typed, expected) in [
            ("", "*.rs", "*.rs"),
            ("src", "*.rs", "src/*.rs"),
            ("src", "**", "src/**"),
            ("src/x", "../**/*.rs", "src/**/*.rs"),
            ("src", "{a/b,../c}", "src/{a/b,../c}"),
            ("src", "x/{a,b}/", "src/x/{a,b}/"),
            ("src", "/home/ann/app/*.rs", "*.rs"),
            ("app/[id]", "*.ts", "app/[[]id]/*.ts"),
            ("app/[id]", "x/", "app/[[]id]/x/"),
            ("app/[id]", "../*.ts", "app/*.ts"),
            ("db:x", "*", "[d]b:x/*"),
        ] {
            assert_eq!(sent(prefix, typed), expected, "{typed} in {prefix}");
        }
    }

    #[test]
    fn a_directory_name_with_pattern_characters_matches_only_itself() {
        let key = Key::parse(&sent("app/[id]{x}", "*.ts"), &KeyRules::default()).unwrap();
        let Claim::Glob(glob) = key.claim() else { panic!("{key:?}") };
        assert!(glob.matches(b"app/[id]{x}/a.ts"));
        assert!(!glob.matches(b"app/i/a.ts"));
        let key = Key::parse(&sent("db:x", "*"), &KeyRules::default()).unwrap();
        assert!(matches!(key.claim(), Claim::Glob(glob) if glob.matches(b"db:x/a")));
        assert_eq!(sent("app/[id]", "a.ts"), "file:app/[id]/a.ts");
        assert_eq!(sent("db:x", "a"), "file:db:x/a");
    }

    #[test]
    fn a_name_can_start_at_the_top_or_be_literal() {
        for (typed, expected) in [
            (":/a.rs", "a.rs"),
            (":/src/*.rs", "src/*.rs"),
            (":/x/", "x/"),
            (":/file:a[1].rs", "file:a[1].rs"),
            (":/db:schema:slot", "db:schema:slot"),
            ("file:a[1].rs", "file:src/a[1].rs"),
            ("file:../100%", "file:100%25"),
            ("file:C:x", "file:src/C:x"),
            ("file:a\\b\n", "file:src/a\\b%0A"),
            ("file:x/", "file:x/"),
        ] {
            assert_eq!(sent("src", typed), expected, "{typed}");
        }
    }

    #[test]
    fn logical_keys_and_uris_do_not_depend_on_the_directory() {
        for name in
            ["db:migration-slot", "api:GET /v1/users", "github://acme/app/issues/42", "wat:x", "C:x", "flag:a/*"]
        {
            assert_eq!(sent("src", name), name);
        }
    }

    #[test]
    fn a_path_outside_the_repository_is_refused_with_a_sentence() {
        assert_eq!(refused("src", "../../a"), "../../a is outside the repository at /home/ann/app");
        assert_eq!(refused("", ":/../a"), "../a is outside the repository at /home/ann/app");
        assert_eq!(
            refused("", "/home/ann/apphouse/a"),
            "/home/ann/apphouse/a is outside the repository at /home/ann/app"
        );
        assert!(refused("", ":(glob)a").contains("knows only :/"));
        let nowhere = Names::typed(&Cwd::default(), &[os(b"/a")]).unwrap_err();
        assert!(nowhere.to_string().contains("no work tree"), "{nowhere}");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_percent_encoded() {
        let names = Names::typed(&cwd("src"), &[os(b"caf\xe9"), os(b"a.rs"), os(b"100%")]).unwrap();
        assert_eq!(names.texts(), ["file:src/caf%E9", "src/a.rs", "src/100%"]);
        assert_eq!(names.encoding(), Some(Encoding::Percent));
        assert_eq!(Names::typed(&cwd("src"), &[os(b"a%25")]).unwrap().encoding(), None);
        let names = Names::from_git(split_paths(b"a\nb\0\xff\0\0src/[id].ts\0", 0));
        assert_eq!(names.texts(), ["file:a%0Ab", "file:%FF", "file:src/[id].ts"]);
        assert!(refused_bytes(b"db:\xff").contains("not UTF-8"));
        let strange = Cwd { prefix: b"caf\xe9".to_vec(), ..cwd("") };
        assert!(
            Names::typed(&strange, &[os(b"*.rs")]).unwrap_err().to_string().contains("cannot be used as a pattern")
        );
        assert_eq!(Names::typed(&strange, &[os(b"a")]).unwrap().texts(), ["file:caf%E9/a"]);
    }

    fn refused_bytes(typed: &[u8]) -> String {
        Names::typed(&cwd(""), &[os(typed)]).unwrap_err().to_string()
    }

    #[test]
    fn a_key_that_was_shown_can_be_typed_again() {
        let below = cwd("src");
        for shown in ["src/a.rs", "src/**", "file:src/[id].ts", "db:schema:slot", "deploy://x"] {
            let typed = below.typed(shown);
            assert_eq!(sent("src", &typed), shown);
            assert_eq!(cwd("").typed(shown), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_argument_panics(prefix in "[a-z*/\\[:]{0,6}", typed: Vec<u8>) {
            let cwd = cwd(&prefix);
            if let Ok(names) = Names::typed(&cwd, &[os(&typed)]) {
                let text = names.texts().remove(0);
                let _ = Key::parse_percent(&text, &KeyRules::default());
            }
        }
    }
}
