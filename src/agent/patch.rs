//! The patch format of `apply_patch`: which files a patch changes.
//!
//! Only the lines that name files matter here. They are read as leniently as the agents read them, with white space around
//! them. A line of a changed file begins with `+`, `-` or a space, so only a context line of a patch about patches can be
//! taken for such a line; then one path more is reserved.

/// What a patch begins with.
const BEGIN: &str = "*** Begin Patch";

/// What begins a line that names a file.
const MARKERS: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Whether the text has a patch in it: the patch itself, or a shell command with a here-document.
pub fn is_patch(text: &str) -> bool {
    text.contains(BEGIN)
}

/// The files that a patch adds, changes, deletes or moves, both ends of a move, in order, each once.
pub fn files(text: &str) -> Vec<&str> {
    let mut files = Vec::new();
    let mut known = std::collections::HashSet::new();
    for line in text.lines().map(str::trim) {
        let file = MARKERS.iter().find_map(|marker| line.strip_prefix(marker)).map(str::trim);
        if let Some(file) = file.filter(|file| !file.is_empty() && known.insert(*file)) {
            files.push(file);
        }
    }
    files
}

/// The directory that a shell command changes to before it applies a patch: `cd DIR && apply_patch <<'EOF'`.
pub fn directory(command: &str) -> Option<&str> {
    let before = &command[..command.find("apply_patch")?];
    let dir = before.trim().strip_prefix("cd ")?.strip_suffix("&&")?.trim();
    let quoted = |quote: char| dir.strip_prefix(quote)?.strip_suffix(quote);
    let dir = quoted('\'').or_else(|| quoted('"')).unwrap_or(dir);
    (!dir.is_empty() && !dir.contains(['\'', '"', '$', '`', ';', '\n', '&', '|'])).then_some(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_patch_is_listed_once() {
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+fresh\n+*** Add File: text\n*** Update File: a.txt\n\
                     *** Move to: moved.txt\n@@\n-hello\n+HELLO\n*** Delete File: old.txt\n  *** Update File: a.txt  \n\
                     *** End Patch\n";
        assert!(is_patch(patch));
        assert_eq!(files(patch), ["new.txt", "a.txt", "moved.txt", "old.txt"]);
        assert!(files("*** Begin Patch\n*** Add File: \n*** End Patch").is_empty());
        assert_eq!(files("*** Begin Patch\r\n*** Add File: with space\r\n"), ["with space"]);
    }

    #[test]
    fn a_here_document_may_change_the_directory_first() {
        let heredoc = |dir: &str| format!("{dir}apply_patch <<'P'\n*** Begin Patch\n*** Update File: a.txt\nP");
        assert_eq!(directory(&heredoc("cd sub && ")), Some("sub"));
        assert_eq!(directory(&heredoc("cd 'a b' && ")), Some("a b"));
        assert_eq!(directory(&heredoc("")), None);
        assert_eq!(directory(&heredoc("cd $(pwd) && ")), None);
        assert_eq!(directory("cd sub && ls"), None);
    }
}
