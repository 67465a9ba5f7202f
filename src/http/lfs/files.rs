//! The tracked files of a repository, and which of them a pattern covers.

use crate::engine::Text;
use crate::key::{Claim, Glob, Key, KeyRules};

/// Reads the files that HEAD has: a trait, so that nothing in this room knows git. Both calls may block.
pub trait TrackedFiles: Send + Sync {
    /// The commit of HEAD; none before the first one.
    fn head(&self) -> Result<Option<Text>, String>;

    /// The names of all files of a commit, each with a NUL behind it. At most `bytes_max` bytes, where a name may be cut off.
    fn names(&self, commit: &str, bytes_max: usize) -> Result<Vec<u8>, String>;
}

/// The most bytes of names that are read of one commit: about a million files.
const NAMES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The files of one commit, in the order of the form in which names are compared.
pub struct FileList {
    commit: Text,
    files: Vec<TrackedFile>,
    /// Every file of the commit is in it.
    is_complete: bool,
    bytes: usize,
}

struct TrackedFile {
    name: Text,
    /// The form that is compared, where it is not the name itself.
    compared: Option<Box<[u8]>>,
}

impl TrackedFile {
    fn compared(&self) -> &[u8] {
        self.compared.as_deref().unwrap_or(self.name.as_bytes())
    }
}

impl FileList {
    /// Reads the files of a commit.
    pub fn read(source: &dyn TrackedFiles, commit: Text, rules: &KeyRules) -> Result<FileList, String> {
        let names = source.names(&commit, NAMES_BYTES_MAX)?;
        let whole = names.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
        let mut list = FileList { commit, files: Vec::new(), is_complete: names.len() < NAMES_BYTES_MAX, bytes: 0 };
        for name in names[..whole].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            match tracked_file(name, rules) {
                Some(file) => {
                    list.bytes += size_of::<TrackedFile>() + 16 + 2 * name.len();
                    list.files.push(file);
                }
                // A name that JSON cannot write. Our hooks know it.
                None => list.is_complete = false,
            }
        }
        list.files.sort_unstable_by(|a, b| a.compared().cmp(b.compared()));
        Ok(list)
    }

    pub fn commit(&self) -> &Text {
        &self.commit
    }

    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The files that a pattern may cover, and whether it does.
    pub fn candidates<'a>(&'a self, glob: &'a Glob) -> impl Iterator<Item = (&'a Text, bool)> {
        let anchor = glob.anchor();
        let first = self.files.partition_point(|file| file.compared() < anchor);
        let below = self.files[first..].iter().take_while(move |file| file.compared().starts_with(anchor));
        below.map(|file| (&file.name, glob.matches(file.compared())))
    }
}

fn tracked_file(name: &[u8], rules: &KeyRules) -> Option<TrackedFile> {
    let text = std::str::from_utf8(name).ok()?;
    let is_plain = text.is_ascii() && !rules.fold_case;
    let compared = match is_plain {
        true => None,
        false => match Key::literal(name, rules).ok()?.claim() {
            Claim::Path(path) if path != name => Some(path.into()),
            _ => None,
        },
    };
    Some(TrackedFile { name: text.into(), compared })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(&'static [u8]);

    impl TrackedFiles for Fixed {
        fn head(&self) -> Result<Option<Text>, String> {
            Ok(Some("1".into()))
        }

        fn names(&self, _: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
            Ok(self.0[..self.0.len().min(bytes_max)].to_vec())
        }
    }

    fn covered(names: &'static [u8], pattern: &str, fold_case: bool) -> (Vec<String>, bool) {
        let rules = KeyRules { fold_case, ..KeyRules::default() };
        let list = FileList::read(&Fixed(names), "1".into(), &rules).unwrap();
        let key = Key::parse(pattern, &rules).unwrap();
        let Claim::Glob(glob) = key.claim() else { panic!("{pattern} is a pattern") };
        let names = list.candidates(glob).filter(|(_, covers)| *covers).map(|(name, _)| name.to_string()).collect();
        (names, list.is_complete())
    }

    #[test]
    fn a_pattern_covers_what_it_matches_and_keeps_the_spelling() {
        let names = b"a.rs\0src/a.rs\0src/deep/b.rs\0src2/c.rs\0Src/D.rs\0";
        assert_eq!(covered(names, "src/", false), (vec!["src/a.rs".into(), "src/deep/b.rs".into()], true));
        assert_eq!(covered(names, "**/*.rs", false).0.len(), 5);
        assert_eq!(covered(names, "src/*.rs", true).0, ["src/a.rs", "Src/D.rs"]);
        // Decomposed in the tree, composed in the pattern.
        assert_eq!(covered("o\u{308}/x\0".as_bytes(), "\u{f6}/", false).0, ["o\u{308}/x"]);
    }

    #[test]
    fn a_name_that_json_cannot_write_is_left_out() {
        assert_eq!(covered(b"src/\xff\0src/ok\0", "src/", false), (vec!["src/ok".into()], false));
    }
}
