//! Real coding agents, at pinned versions, with a scripted model on loopback.
//!
//! Every test sets a repository up with `git dibs init`, starts the real program, lets the scripted model make tool calls,
//! and looks at the files, at what is held, and at what the model was told. `./test` installs two of the programs into
//! `target/agents`, and `./test --agents` all of them; an agent that is not there is skipped with a sentence.
//!
//! | question | file |
//! |---|---|
//! | what is tried | `edits.rs`, `shell.rs`, `trouble.rs`, `tools.rs` |
//! | how an agent is started, and what it calls its tools | `make.rs`, `calls.rs` |
//! | what a model says, in the words of four APIs | `model.rs`, `dialect.rs` |
//! | a repository that is set up, and a running agent | `world.rs` |

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod dialect;
mod edits;
mod make;
mod model;
mod shell;
mod tools;
mod trouble;
mod world;

/// A test of this name for each agent: `denied_edit::claude`.
#[macro_export]
macro_rules! each_agent {
    ($case:ident: $($agent:ident),+) => {
        mod $case {
            $(
                #[test]
                fn $agent() {
                    super::super::world::with_agent(stringify!($agent), super::$case);
                }
            )+
        }
    };
}
