//! A change of a file as a unified diff.

use std::path::Path;

use similar::TextDiff;

/// The diff, with the paths as git writes them.
pub fn unified(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let name = |there: Option<&str>| match there {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let diff = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    diff.unified_diff().context_radius(3).header(&name(before), &name(after)).to_string()
}
