//! From what was typed, or what git listed, to the keys a server understands.
//!
//! Files and patterns are relative to the current directory, like git's own pathspecs; a leading `:/` makes them relative
//! to the top of the repository. Logical keys and resource URIs are the same everywhere. Names out of git are taken
//! byte for byte.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use crate::git::{self, Repo};
use crate::text::{percent, terminal};
use crate::wire::Encoding;

/// Keys, ready to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<Name>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// As the contract writes keys.
    Text(String),
    /// One path, byte for byte.
    Literal(Vec<u8>),
}

/// What typed names are relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cwd {
    /// The top of the work tree, where there is one.
    root: Option<PathBuf>,
    /// The way from there to the current directory, without slashes at its ends.
    prefix: Vec<u8>,
}

impl Cwd {
    /// Where we are in this repository; outside of one, names count as if typed at its top.
    pub fn of(repo: Option<&Repo>) -> Cwd {
        let Some(work_dir) = repo.and_then(|repo| repo.work_dir.as_deref()) else { return Cwd::default() };
        let Ok(root) = work_dir.canonicalize() else { return Cwd::default() };
        let here = std::env::current_dir().and_then(|dir| dir.canonicalize()).unwrap_or_default();
        let prefix = here.strip_prefix(&root).map(|below| below.as_os_str().as_bytes().to_vec());
        Cwd { prefix: prefix.unwrap_or_default(), root: Some(root) }
    }

    /// How a key the server showed is typed here.
    pub fn typed(&self, shown: &str) -> String {
        let is_name = leading_word(shown.as_bytes()).is_some_and(|word| word != b"file");
        if self.prefix.is_empty() || is_name { shown.to_owned() } else { format!(":/{shown}") }
    }

    fn top(&self) -> Cwd {
        Cwd { root: self.root.clone(), prefix: Vec::new() }
    }
}

impl Names {
    /// Reads arguments.
    pub fn typed(cwd: &Cwd, args: &[OsString]) -> Result<Names, Failure> {
        let read = |arg: &OsString| read(cwd, arg.as_bytes()).map_err(Failure::usage);
        args.iter().map(read).collect::<Result<_, _>>().map(Names)
    }

    /// Takes paths out of git.
    pub fn from_git(paths: Vec<git::Path>) -> Names {
        Names(paths.into_iter().map(Name::Literal).collect())
    }

    /// Takes keys as the contract writes them.
    pub fn written(keys: impl IntoIterator<Item = String>) -> Names {
        Names(keys.into_iter().map(Name::Text).collect())
    }

    /// Each as it is sent, in order.
    pub fn texts(&self) -> Vec<String> {
        let write = |name: &Name| match name {
            Name::Text(text) => text.clone(),
            Name::Literal(bytes) => format!("file:{}", percent::encode(bytes)),
        };
        self.0.iter().map(write).collect()
    }

    /// What is to be said with them: literal names are always percent-encoded, because they may hold any byte.
    pub fn encoding(&self) -> Option<Encoding> {
        self.0.iter().any(|name| matches!(name, Name::Literal(_))).then_some(Encoding::Percent)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Takes lines or NUL-separated pieces apart into paths as git lists them.
pub fn listed(bytes: &[u8], separator: u8) -> Vec<git::Path> {
    bytes.split(|&b| b == separator).filter(|piece| !piece.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Reads one argument; the error is a sentence.
fn read(cwd: &Cwd, typed: &[u8]) -> Result<Name, String> {
    if let Some(rest) = typed.strip_prefix(b":/") {
        return read(&cwd.top(), rest);
    }
    if typed.starts_with(b":(") || typed.starts_with(b":!") || typed.starts_with(b":^") {
        return Err(format!(
            "{} looks like git's pathspec magic, of which only :/ is known here; a file of this name is written file:{0}",
            terminal::path(typed)
        ));
    }
    match leading_word(typed) {
        Some(b"file") => match relative(cwd, &typed[b"file:".len()..], false)? {
            // The server says what is wrong with a literal directory.
            _ if typed.ends_with(b"/") => Ok(Name::Text(String::from_utf8_lossy(typed).into_owned())),
            Found { path, .. } => Ok(Name::Literal(path)),
        },
        Some(_) => match std::str::from_utf8(typed) {
            Ok(name) => Ok(Name::Text(name.to_owned())),
            Err(_) => Err(format!(
                "{} is not UTF-8; a file of this name is written with file: in front of it",
                terminal::path(typed)
            )),
        },
        None => file_or_pattern(cwd, typed),
    }
}

fn file_or_pattern(cwd: &Cwd, typed: &[u8]) -> Result<Name, String> {
    let is_pattern = has_pattern(typed) && std::str::from_utf8(typed).is_ok();
    let found = relative(cwd, typed, is_pattern)?;
    let Ok(path) = std::str::from_utf8(&found.path) else {
        if is_pattern {
            return Err(format!(
                "{} cannot be a pattern here, because the current directory's name is not UTF-8",
                terminal::path(typed)
            ));
        }
        return Ok(Name::Literal(found.path));
    };
    if path.is_empty() {
        // The top of the repository; the server says how that is written on purpose.
        return Ok(Name::Text(".".to_owned()));
    }
    let is_plain = !has_pattern(path.as_bytes()) && leading_word(path.as_bytes()).is_none();
    match (is_pattern || found.is_directory, is_plain) {
        (false, true) => Ok(Name::Text(path.to_owned())),
        (false, false) => Ok(Name::Literal(found.path)),
        (true, _) => {
            let (above, own) = path.split_at(found.above);
            let slash = if found.is_directory && !own.ends_with('/') { "/" } else { "" };
            Ok(Name::Text(format!("{}{own}{slash}", taken_literally(above))))
        }
    }
}

/// A name from the top of the repository.
struct Found {
    path: Vec<u8>,
    /// How much of `path` was not typed but comes from the current directory.
    above: usize,
    /// It was typed with a slash at its end, or as `.` or `..`.
    is_directory: bool,
}

/// Follows a typed name from the current directory. From its first component with a pattern on, nothing is folded: a
/// slash inside braces is no step into a directory.
fn relative(cwd: &Cwd, typed: &[u8], is_pattern: bool) -> Result<Found, String> {
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
    Ok(Found { path, above, is_directory })
}

/// What lies behind the top of the work tree in an absolute path.
fn inside<'a>(cwd: &Cwd, typed: &'a [u8]) -> Result<&'a [u8], String> {
    let Some(root) = &cwd.root else {
        return Err(format!("{} is absolute, and there is no work tree here it could lie in", terminal::path(typed)));
    };
    match typed.strip_prefix(root.as_os_str().as_bytes()) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => Ok(rest),
        _ => {
            // The way there may go through a symlink; a pattern's does not exist and is not looked up.
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
    format!("{} is outside of the repository{root}", terminal::path(typed))
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&b| b == b'/').filter(|component| !component.is_empty()).collect()
}

fn has_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, b'*' | b'?' | b'[' | b'{'))
}

/// The word before a `:` at the beginning, which makes it something else than a path.
fn leading_word(text: &[u8]) -> Option<&[u8]> {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-');
    let end = text.iter().position(|&b| !is_word(b))?;
    (text[end] == b':' && text[0].is_ascii_alphabetic()).then(|| &text[..end])
}

/// Directory names at the head of a pattern, written so that they match only themselves.
fn taken_literally(above: &str) -> String {
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

    /// What is sent for one argument.
    fn sent(prefix: &str, typed: &str) -> String {
        Names::typed(&cwd(prefix), &[os(typed.as_bytes())]).unwrap().texts().remove(0)
    }

    fn refused(prefix: &str, typed: &str) -> String {
        Names::typed(&cwd(prefix), &[os(typed.as_bytes())]).unwrap_err().sentence
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
    fn a_directory_with_an_odd_name_means_itself() {
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
    fn from_the_top_and_literally() {
        for (typed, expected) in [
            (":/a.rs", "a.rs"),
            (":/src/*.rs", "src/*.rs"),
            (":/x/", "x/"),
            (":/file:a[1].rs", "file:a[1].rs"),
            (":/db:slot", "db:slot"),
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
    fn names_that_are_no_files_stay_as_they_are() {
        for name in
            ["db:migration-slot", "api:GET /v1/users", "github://acme/app/issues/42", "wat:x", "C:x", "flag:a/*"]
        {
            assert_eq!(sent("src", name), name);
        }
    }

    #[test]
    fn what_leads_out_is_a_sentence() {
        assert_eq!(refused("src", "../../a"), "../../a is outside of the repository at /home/ann/app");
        assert_eq!(refused("", ":/../a"), "../a is outside of the repository at /home/ann/app");
        assert_eq!(
            refused("", "/home/ann/apphouse/a"),
            "/home/ann/apphouse/a is outside of the repository at /home/ann/app"
        );
        assert!(refused("", ":(glob)a").contains("only :/ is known"));
        let nowhere = Names::typed(&Cwd::default(), &[os(b"/a")]).unwrap_err();
        assert!(nowhere.sentence.contains("no work tree"), "{nowhere}");
    }

    #[test]
    fn bytes_survive() {
        let names = Names::typed(&cwd("src"), &[os(b"caf\xe9"), os(b"a.rs"), os(b"100%")]).unwrap();
        assert_eq!(names.texts(), ["file:src/caf%E9", "src/a.rs", "src/100%"]);
        assert_eq!(names.encoding(), Some(Encoding::Percent));
        assert_eq!(Names::typed(&cwd("src"), &[os(b"a%25")]).unwrap().encoding(), None);
        let names = Names::from_git(listed(b"a\nb\0\xff\0\0src/[id].ts\0", 0));
        assert_eq!(names.texts(), ["file:a%0Ab", "file:%FF", "file:src/[id].ts"]);
        assert!(refused_bytes(b"db:\xff").contains("not UTF-8"));
        let strange = Cwd { prefix: b"caf\xe9".to_vec(), ..cwd("") };
        assert!(Names::typed(&strange, &[os(b"*.rs")]).unwrap_err().sentence.contains("cannot be a pattern"));
        assert_eq!(Names::typed(&strange, &[os(b"a")]).unwrap().texts(), ["file:caf%E9/a"]);
    }

    fn refused_bytes(typed: &[u8]) -> String {
        Names::typed(&cwd(""), &[os(typed)]).unwrap_err().sentence
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        let below = cwd("src");
        for shown in ["src/a.rs", "src/**", "file:src/[id].ts", "db:slot", "deploy://x"] {
            let typed = below.typed(shown);
            assert_eq!(sent("src", &typed), shown);
            assert_eq!(cwd("").typed(shown), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_argument_is_too_strange(prefix in "[a-z*/\\[:]{0,6}", typed: Vec<u8>) {
            let cwd = cwd(&prefix);
            if let Ok(names) = Names::typed(&cwd, &[os(&typed)]) {
                let text = names.texts().remove(0);
                let _ = Key::parse_percent(&text, &KeyRules::default());
            }
        }
    }
}
