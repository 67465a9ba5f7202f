//! The patch format of `apply_patch`: which files a patch changes.
//!
//! Only the lines that name files matter here. They are read as leniently as the most lenient agent reads them: with white
//! space around them, and with or without a space after the colon. Inside of a changed file, a line that begins with `+`, `-`
//! or a space belongs to that file, whatever else is in it.

/// What a patch begins with.
const BEGIN: &str = "*** Begin Patch";

/// What begins a line that names a file.
const ADD: &str = "*** Add File:";
const UPDATE: &str = "*** Update File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END: &str = "*** End Patch";

/// Whether the text has a patch in it: the patch itself, or a shell command with a here-document.
pub fn is_patch(text: &str) -> bool {
    text.contains(BEGIN)
}

/// Whether the text is a patch and nothing else.
pub fn is_bare(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// The files that a patch adds, changes, deletes or moves, both ends of a move, in order, each once.
pub fn files(text: &str) -> Vec<&str> {
    let mut files = Vec::new();
    let mut known = std::collections::HashSet::new();
    let mut in_update = false;
    for line in text.lines() {
        if in_update && line.starts_with([' ', '+', '-']) {
            continue;
        }
        let line = line.trim();
        let marker = [ADD, UPDATE, DELETE, MOVE, BEGIN, END].into_iter().find(|marker| starts_with(line, marker));
        let Some(marker) = marker else { continue };
        in_update = matches!(marker, UPDATE | MOVE);
        let file = line[marker.len()..].trim();
        if !matches!(marker, BEGIN | END) && !file.is_empty() && known.insert(file) {
            files.push(file);
        }
    }
    files
}

fn starts_with(line: &str, marker: &str) -> bool {
    line.get(..marker.len()).is_some_and(|start| start.eq_ignore_ascii_case(marker))
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
    fn a_context_line_was_taken_for_the_name_of_a_file() {
        let patch = "*** Begin Patch\n*** Update File: docs.md\n@@\n *** Update File: a.txt\n-*** Delete File: b.txt\n\
                     +*** Add File: c.txt\n *** End Patch\n *** Add File: d.txt\n*** Update File: e.txt\n*** Move to: f.txt\n\
                     @@\n *** Update File: g.txt\n*** End Patch\n";
        assert_eq!(files(patch), ["docs.md", "e.txt", "f.txt"]);
    }

    #[test]
    fn names_are_read_as_the_most_lenient_agent_reads_them() {
        for line in ["*** Update File:a", "  *** update file: a ", "\t*** Update File:   a"] {
            let patch = format!("*** Begin Patch\n*** Delete File: x\n{line}\n@@\n+b\n*** End Patch");
            assert_eq!(files(&patch), ["x", "a"], "{line:?}");
        }
        assert!(files("*** Begin Patch\n*** é\n*** Update Filé: a\n").is_empty());
    }
}
