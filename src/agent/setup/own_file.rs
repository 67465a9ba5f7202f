//! A file that is ours alone: a plugin, a skill.

use super::part::Problem;

/// Every file of ours has this in it.
pub const MARK: &str = "Written by git dibs setup";

/// A whole file.
#[derive(Debug)]
pub struct OwnFile {
    pub text: String,
    /// Write it where there is none; else only one that is there is kept up to date.
    pub wanted: bool,
}

impl OwnFile {
    pub fn added(&self, text: Option<&str>) -> Result<Option<String>, Problem> {
        match text {
            None if !self.wanted => Ok(None),
            Some(there) if !there.contains(MARK) && !there.is_empty() => {
                Err(Problem::new(1, "this file was not written by git-dibs; rename it"))
            }
            _ => Ok(Some(self.text.clone())),
        }
    }

    pub fn removed(&self, text: &str) -> Result<Option<String>, Problem> {
        Ok(Some(text.to_owned()).filter(|text| !text.contains(MARK)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_file_is_replaced_or_removed() {
        let own = OwnFile { text: format!("// {MARK}\nnew\n"), wanted: true };
        assert_eq!(own.added(None).unwrap().as_deref(), Some(&*own.text));
        assert_eq!(own.added(Some("// Written by git dibs setup\nold\n")).unwrap().as_deref(), Some(&*own.text));
        assert!(own.added(Some("theirs\n")).is_err());
        assert_eq!(own.removed(&own.text).unwrap(), None);
        assert_eq!(own.removed("theirs\n").unwrap().as_deref(), Some("theirs\n"));
        let unwanted = OwnFile { wanted: false, ..own };
        assert_eq!(unwanted.added(None).unwrap(), None);
    }
}
