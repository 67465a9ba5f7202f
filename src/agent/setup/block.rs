//! Text of ours between two markers in a file of others: instructions in Markdown, settings in YAML.

use super::part::Problem;

/// How the markers are written as comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comments {
    /// `<!-- … -->`
    Markdown,
    /// `# …`
    Yaml,
}

/// A block in one file.
#[derive(Debug)]
pub struct Block {
    pub comments: Comments,
    /// Whole lines.
    pub text: String,
    /// Add it where there is none; else only one that is there is kept up to date.
    pub wanted: bool,
    /// A key of YAML in the text, and its value. If the user has set it, the block is not needed, or in the way.
    pub key: Option<(&'static str, &'static str)>,
}

const BEGIN: &str = "git-dibs: begin (git dibs setup keeps these lines up to date)";
const END: &str = "git-dibs: end";

impl Comments {
    fn line(self, text: &str) -> String {
        match self {
            Comments::Markdown => format!("<!-- {text} -->\n"),
            Comments::Yaml => format!("# {text}\n"),
        }
    }
}

impl Block {
    pub fn added(&self, text: Option<&str>) -> Result<Option<String>, Problem> {
        let before = text.unwrap_or_default();
        let found = self.find(before)?;
        if found.is_none() && !self.wanted {
            return Ok(text.map(str::to_owned));
        }
        let (head, tail) = match found {
            Some((start, end)) => (before[..start].to_owned(), &before[end..]),
            None => (separated(before), ""),
        };
        if self.user_has_set_it(&head, tail)? {
            return Ok(text.map(str::to_owned));
        }
        let (begin, end) = (self.comments.line(BEGIN), self.comments.line(END));
        Ok(Some(format!("{head}{begin}{}{end}{tail}", self.text)))
    }

    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        let Some((start, end)) = self.find(text)? else { return Ok(Some(text.to_owned())) };
        let (head, tail) = (&text[..start], &text[end..]);
        // The empty line that was added before the block.
        let head = head.strip_suffix('\n').filter(|head| tail.is_empty() && head.ends_with('\n')).unwrap_or(head);
        let rest = format!("{head}{tail}");
        Ok(Some(rest).filter(|rest| !rest.trim().is_empty()))
    }

    /// Where the block begins and ends, with its markers.
    fn find(&self, text: &str) -> Result<Option<(usize, usize)>, Problem> {
        let mark = |words: &str| self.comments.line(words);
        // The words after "begin" may change from version to version.
        let begin = mark("git-dibs: begin").trim_end().trim_end_matches("-->").trim_end().to_owned();
        let end = mark(END);
        let is_line_start = |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
        let Some(start) = text.match_indices(&begin).map(|(at, _)| at).find(|&at| is_line_start(at)) else {
            return Ok(None);
        };
        let rest = &text[start..];
        let stop = rest.match_indices(end.trim_end()).map(|(at, _)| start + at).find(|&at| is_line_start(at));
        let stop = stop.ok_or_else(|| {
            Problem::at(text, start, format!("after this line, the line {:?} is missing", end.trim_end()))
        })?;
        let stop = text[stop..].find('\n').map_or(text.len(), |length| stop + length + 1);
        Ok(Some((start, stop)))
    }

    /// Whether the user has set the key to our value. Another value is a problem.
    fn user_has_set_it(&self, head: &str, tail: &str) -> Result<bool, Problem> {
        let Some((key, wanted)) = self.key else { return Ok(false) };
        let value_in = |line: &str| {
            let value = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
            Some(value.split(" #").next().unwrap_or_default().trim().to_owned())
        };
        let lines = head.lines().chain(tail.lines()).enumerate();
        match lines.filter_map(|(index, line)| Some((index + 1, value_in(line)?))).next() {
            None => Ok(false),
            Some((_, value)) if value == wanted => Ok(true),
            Some((line, _)) => Err(Problem::new(line, format!("set {key} to {wanted}, or remove this line"))),
        }
    }
}

/// A text with an empty line after it, if it is not empty.
fn separated(text: &str) -> String {
    match text {
        "" => String::new(),
        text if text.ends_with('\n') => format!("{text}\n"),
        text => format!("{text}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        Block { comments: Comments::Markdown, text: text.to_owned(), wanted: true, key: None }
    }

    #[test]
    fn a_block_is_added_after_what_is_there_and_removed_again() {
        for before in ["# Rules\n\nBe kind.\n", "one\n"] {
            let after = block("ours\n").added(Some(before)).unwrap().unwrap();
            assert!(after.starts_with(&format!("{before}\n<!-- git-dibs: begin ")), "{after}");
            assert!(after.ends_with("-->\nours\n<!-- git-dibs: end -->\n"), "{after}");
            assert_eq!(block("ours\n").added(Some(&after)).unwrap().unwrap(), after);
            assert_eq!(block("").removed(&after).unwrap().as_deref(), Some(before));
        }
        let new = block("ours\n").added(None).unwrap().unwrap();
        assert_eq!(block("").removed(&new).unwrap(), None);
    }

    #[test]
    fn a_block_is_brought_up_to_date_where_it_is() {
        let before = "head\n<!-- git-dibs: begin (older words) -->\nold\n<!-- git-dibs: end -->\ntail\n";
        let after = block("new\n").added(Some(before)).unwrap().unwrap();
        assert!(
            after.starts_with("head\n<!-- git-dibs: begin ")
                && after.ends_with("\nnew\n<!-- git-dibs: end -->\ntail\n")
        );
        assert_eq!(block("").removed(&after).unwrap().as_deref(), Some("head\ntail\n"));
        let unwanted = Block { wanted: false, ..block("new\n") };
        assert_eq!(unwanted.added(Some(before)).unwrap().unwrap(), after, "one that is there is kept up to date");
        assert_eq!(unwanted.added(Some("head\n")).unwrap().as_deref(), Some("head\n"));
        assert_eq!(unwanted.added(None).unwrap(), None);
    }

    #[test]
    fn a_key_that_the_user_has_set_decides() {
        let key = Some(("verify", "true"));
        let yaml = Block { comments: Comments::Yaml, text: "verify: true\n".to_owned(), wanted: true, key };
        let after = yaml.added(Some("a: 1\n")).unwrap().unwrap();
        assert!(
            after.starts_with("a: 1\n\n# git-dibs: begin ") && after.ends_with("\nverify: true\n# git-dibs: end\n")
        );
        assert_eq!(yaml.added(Some(&after)).unwrap().unwrap(), after);
        let own = "verify: true # always\n";
        assert_eq!(yaml.added(Some(own)).unwrap().as_deref(), Some(own));
        let problem = yaml.added(Some("a: 1\nverify : false\n")).unwrap_err();
        assert_eq!(problem, Problem::new(2, "set verify to true, or remove this line"));
    }

    #[test]
    fn a_block_without_an_end_is_refused() {
        let problem = block("x\n").added(Some("a\n<!-- git-dibs: begin -->\nb\n")).unwrap_err();
        assert_eq!((problem.line, problem.what.contains("<!-- git-dibs: end -->")), (2, true), "{problem:?}");
        let quoted = "to have `<!-- git-dibs: begin -->` in a line is fine\n";
        assert!(block("x\n").added(Some(quoted)).unwrap().unwrap().starts_with(quoted));
    }
}
