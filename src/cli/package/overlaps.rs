//! Packages of one file that would block each other.

use std::collections::HashMap;

use super::Package;
use crate::cli::yaml::YamlReader;
use crate::key::{Claim, Key};

/// How much the patterns may be compared: with a name, or with another pattern. More would take seconds.
const COMPARISONS_MAX: usize = 2_000_000;

/// How many comparisons with a name take as long as one with a pattern.
const PATTERN_WEIGHT: usize = 100;

/// The most overlaps that are reported; the others are like them.
const REPORTED_MAX: usize = 100;

/// A key, and the package that it is of.
type Owned<'a> = (&'a Key, &'a Package);

/// Reports keys of different packages that overlap, each with both names.
pub(super) fn check(packages: &[Package], reader: &mut YamlReader<'_>) {
    if packages.len() < 2 {
        return;
    }
    let all: Vec<Owned<'_>> =
        packages.iter().flat_map(|package| package.lines.keys().map(move |key| (key, package))).collect();
    let is_pattern = |(key, _): &Owned<'_>| matches!(key.claim(), Claim::Glob(_) | Claim::Below(_));
    let (patterns, plain): (Vec<Owned<'_>>, Vec<Owned<'_>>) = all.iter().partition(|owned| is_pattern(owned));
    let work = patterns.len().saturating_mul(plain.len() + PATTERN_WEIGHT * patterns.len());
    if work > COMPARISONS_MAX {
        return reader.problem(1, "the packages have too many patterns to compare them; name more files instead");
    }
    let mut found: Vec<(Owned<'_>, Owned<'_>)> = plain_overlaps(&plain);
    for (position, pattern) in patterns.iter().enumerate() {
        let others = plain.iter().chain(&patterns[position + 1..]);
        found.extend(others.filter(|(key, _)| pattern.0.overlaps(key).is_some()).map(|other| (*pattern, *other)));
    }
    found.retain(|((_, one), (_, other))| one.name != other.name);
    for (one, other) in found.into_iter().take(REPORTED_MAX) {
        let line = |(key, package): Owned<'_>| package.lines[key];
        // Reported at the later one.
        let ((key, package), earlier) = if line(one) > line(other) { (one, other) } else { (other, one) };
        let name = |package: &Package| format!("{:?}", package.name.as_deref().unwrap_or_default());
        let what = format!(
            "{:?} of package {} overlaps {:?} of package {} (line {})",
            key.shown(),
            name(package),
            earlier.0.shown(),
            name(earlier.1),
            line(earlier)
        );
        reader.problem(package.lines[key], what);
    }
}

/// Paths and names overlap if they are equal, or if one path is below the other.
fn plain_overlaps<'a>(plain: &[Owned<'a>]) -> Vec<(Owned<'a>, Owned<'a>)> {
    let mut owners: HashMap<&[u8], Vec<Owned<'a>>> = HashMap::new();
    for owned in plain {
        if let Claim::Path(text) | Claim::Name(text) = owned.0.claim() {
            owners.entry(text).or_default().push(*owned);
        }
    }
    let mut found = Vec::new();
    for list in owners.values() {
        found.extend(list.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0], pair[1])));
    }
    for owned in plain {
        let Claim::Path(path) = owned.0.claim() else { continue };
        let parents = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| &path[..end]);
        for parent in parents.filter_map(|parent| owners.get(parent)) {
            found.extend(parent.iter().filter(|other| other.0.kind() == owned.0.kind()).map(|other| (*other, *owned)));
        }
    }
    found
}
