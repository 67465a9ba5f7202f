//! git-dibs: file reservations for repositories that many worker sessions share.
//!
//! A session calls dibs on what it is about to change; nobody else may commit or push a change to it until it lets
//! go, its time runs out, or the session ends. One binary holds the server, the command line and the git hooks.
//!
//! # The idea
//!
//! Every change is a *record* with a sequence number. Records are recovery, audit, event feed and waiter wake-up; their
//! numbers are ids, fences and queue places. The engine is a pure state machine that turns commands into records and
//! outcomes. One thread, the desk, lets it decide, makes its records durable, and only then tells of them and answers.
//!
//! # Rooms
//!
//! ```text
//! hook ┐                            http ─► desk ─► engine ─► key
//! cli  ┼─► client ───── HTTP ─────►   │      └────► journal            durable records: SQLite, or memory in tests
//!      ┘    (wire: JSON shapes)       │              └─► ledger ─► git  readable history, a repository of its own
//!                                     └──► token                       who may ask
//! hook, cli ─► git                                                     where a repository is, what a change touches
//! ```
//!
//! | room | one sentence | stays ignorant of |
//! |---|---|---|
//! | [`text`] | text that is safe on a terminal, quoted for a shell, percent-coded | everything else |
//! | [`key`] | what can be reserved; do two keys overlap | everything else |
//! | [`engine`] | who holds what; commands in, records and an outcome out | clocks, files, async, HTTP, git |
//! | [`journal`] | makes records durable, gives them back | what records mean |
//! | [`desk`] | one thread: execute → append → publish → reply; the only clock | HTTP, git |
//! | [`ledger`] | renders what the journal tells into git | how decisions are made |
//! | [`token`] | reads and makes JWTs | sessions' state, HTTP |
//! | [`wire`] | request and answer shapes, shared by `http` and `client` | frameworks, rules |
//! | [`http`] | routes in one list; a handler takes apart, submits, answers | the journal |
//! | [`git`] | repositories, settings, changed paths | reservations |
//! | [`client`] · [`hook`] · [`cli`] | doors; they reach the rules only over HTTP; only `cli` prints | the engine's rules |
//!
//! Read `a ← b` as "b may use a": `key ← engine ← journal ← desk ← http` · `engine ← token ← http` ·
//! `text ← key, ledger, http, hook, cli` · `journal, git ← ledger` · `wire ← http, client` · `client, git ← hook ← cli` · `key ← cli`, for work packages.
//! `cli::serve`, `cli::token` and `cli::mint` wire the server together and may use all of it; `cli::config` knows the
//! words for what they are told. `tests/rooms.rs` keeps
//! these arrows true.
//!
//! # Glossary
//!
//! * **Session**: somebody who reserves; has an id, comes to life with its first call, ends once.
//! * **Key**: one thing that can be reserved: a path, a pattern, a logical name, a resource URI. Never a credential.
//! * **Reservation**: a key held by a session, exclusive or shared, until it is released or its TTL runs out.
//! * **holder**: the session of a reservation. **Waiter**: a queued request with all its keys.
//! * **blocker**: a reservation or an earlier waiter that stands in the way of a request.
//! * **Place**: a key as the index knows it: who holds it, who waits for it, its version.
//! * **Seq**: the number of a record. **fence**: the seq that granted a reservation.
//! * **Command**: something asked. **Event**: something that happened. **Record**: an event with its seq and time.
//! * **Outcome**: what a command achieved. **Refusal**: why it was not carried out.
//! * **UnlockRequest**: somebody asks a holder to let go. **Notice**: what a session should know, told with an answer.
//! * **Feed**: records as they become durable. **Follower**: somebody who reads them from there.
//! * **Figures**: what the desk counts and times. **Gauge**: one more number that somebody else keeps.
//! * **Desk**: the thread that decides. **Journal**: the truth. **Image**: recorded state as one value, for snapshots.
//! * **Ledger**: the evidence, in git. **Flush**: what happened since the last look, as one commit. **Lag**: what is not
//!   in it yet. **Shelf**: where a key lies in its tree.
//! * **Limit**: how much of something there may be; has a name in the configuration. **Policy**: what is allowed.
//! * **Gate**: what a request passes before anybody looks at its token.
//! * **Token**: a JWT. **Claims**: what it says. **Scope**: what it may do. **Keyring**: what verifies it.
//! * **Moment**: when a hook runs. **Verdict**: a hook's pass, warn or block.

pub mod cli;
pub mod client;
pub mod desk;
pub mod engine;
pub mod git;
pub mod hook;
pub mod http;
pub mod journal;
pub mod key;
pub mod ledger;
pub mod local;
mod serve;
pub mod text;
pub mod token;
pub mod wire;
