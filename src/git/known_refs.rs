//! Sets of refs whose commits count as known.

use std::ffi::OsString;

/// A set of refs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownRefs {
    Branches,
    Tags,
    /// The tracking refs of every remote.
    Remotes,
    /// The refs of repositories whose objects this one borrows.
    Alternates,
    /// Refs whose names begin with `prefix`, which ends with a slash.
    Below {
        prefix: String,
        except: Vec<Except>,
    },
}

/// Refs that do not belong to a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Except {
    Ref(String),
    /// Every ref whose name begins with this.
    Below(String),
}

impl KnownRefs {
    /// The set as options of `git log` and `git rev-list`.
    pub fn options(&self) -> Vec<OsString> {
        match self {
            KnownRefs::Branches => vec!["--branches".into()],
            KnownRefs::Tags => vec!["--tags".into()],
            KnownRefs::Remotes => vec!["--remotes".into()],
            KnownRefs::Alternates => vec!["--alternate-refs".into()],
            KnownRefs::Below { prefix, except } => {
                let except = except.iter().map(|except| match except {
                    Except::Ref(name) => format!("--exclude={}", literal(name)),
                    Except::Below(prefix) => format!("--exclude={}*", literal(prefix)),
                });
                except.chain([format!("--glob={}*", literal(prefix))]).map(OsString::from).collect()
            }
        }
    }

    /// Whether the ref of this name belongs to the set. `None` if the name alone does not tell.
    pub fn contains(&self, name: &str) -> Option<bool> {
        Some(match self {
            KnownRefs::Branches => name.starts_with("refs/heads/"),
            KnownRefs::Tags => name.starts_with("refs/tags/"),
            KnownRefs::Remotes => name.starts_with("refs/remotes/"),
            KnownRefs::Alternates => return None,
            KnownRefs::Below { prefix, except } => {
                let is_excepted = |except: &Except| match except {
                    Except::Ref(other) => name == other,
                    Except::Below(prefix) => name.starts_with(prefix),
                };
                name.starts_with(prefix) && !except.iter().any(is_excepted)
            }
        })
    }
}

/// A ref name as a pattern that matches only itself.
fn literal(name: &str) -> String {
    name.chars().flat_map(|c| matches!(c, '*' | '?' | '[' | '\\').then_some('\\').into_iter().chain([c])).collect()
}
