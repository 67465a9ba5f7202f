//! git-dibs: file reservations for repositories that many worker sessions share.
//!
//! A session reserves the files it is about to change. Until it releases them, their time runs out or the session ends,
//! no other session's commit or push that changes them goes through. One binary holds the server, the command line and
//! the git hooks.
//!
//! # The idea
//!
//! Every change is a *record* with a sequence number. Records are recovery, audit, event feed, waiter wake-up and git
//! history; their numbers are ids, fences and queue positions. The engine is a pure state machine that turns commands
//! into records and an outcome. One thread, the desk, executes commands, makes their records durable, and only then
//! publishes the records and replies.
//!
//! # Rooms
//!
//! ```text
//! cli   ┐                                 http ─► desk ─► engine ─► key
//! hook  ┤                                   │      ├────► journal ─► ledger   history in git, its own repository
//!                                                             └──► etcd ◄─ cluster, which node runs the desk
//! agent ┼─► judge ─► local ─► client ───►   │      └────► feed ─► event streams of http
//! mcp   ┘             (wire: JSON shapes)   └────► token
//! mcp, http ─► tools, the MCP messages and tools that both serve
//! cli ─► serve, which reads the configuration and wires the rooms of the server together
//! web/, the dashboard: static files inside the binary, served by http; in the browser, a client of http like any other
//! ```
//!
//! | room | one sentence | knows nothing about |
//! |---|---|---|
//! | [`text`] | text that is safe on a terminal, quoted for a shell, percent-coded | everything else |
//! | [`threads`] | which threads of the server go first, and which take what is left of the processors | everything else |
//! | [`boot_clock`] | the time since this machine was started | everything else |
//! | [`key`] | what can be reserved; do two keys overlap | who holds what |
//! | [`engine`] | who holds what; commands in, records and an outcome out | clocks, files, async, HTTP, git |
//! | [`etcd`] | a client of etcd: ranges, transactions, leases, watches | records, nodes |
//! | [`journal`] | makes records durable, returns them; SQLite, etcd in a cluster, or memory in tests | what records mean |
//! | [`cluster`] | which node of a cluster leads which repository; the lease; moving and copying | HTTP, rules |
//! | [`desk`] | one thread: execute → append → publish → reply; the only clock | HTTP, git |
//! | [`ledger`] | writes the history, and what is held now, into a git repository | how decisions are made |
//! | [`token`] | verifies and signs JWTs | sessions' state, HTTP |
//! | [`wire`] | request, response and event shapes, shared by `http` and `client` | frameworks, rules |
//! | [`tools`] | MCP without a transport: the tools, the API calls they stand for, results for a model | transports, rules |
//! | [`http`] | routes: `transport/` → `middleware/` → `handlers/`, `compat/`, `lfs/`, or `transport/` → `quick/` → `handlers/`; `event_json.rs` writes events as JSON | the journal, git |
//! | [`serve`] | configuration, start, reload, signals, stop, offline upkeep; wires the rooms of the server | rules |
//! | [`git`] | repositories, settings, changed paths | reservations |
//! | [`client`] | HTTP calls to a server | git, settings |
//! | [`local`] | where am I (repository, server), who am I (session, token), what did I type (paths) | printing, clap |
//! | [`judge`] | may this change go ahead: ask the server, apply the repository's policy, explain | which git hook runs |
//! | [`mcp`] | MCP over stdin and stdout; finds or opens the session of the connection | rules |
//! | [`hook`] | when git calls us, what a change touches, installation, doctor | rules |
//! | [`agent`] | the hooks of coding agents, where an edit is a reservation; what models are told; setup | rules |
//! | [`cli`] | one file per command, in `cli/commands/`; the only room that prints | rules |
//!
//! Read `a ← b` as "b may use a": `text ← key` · `key ← engine` · `engine, etcd ← journal` ·
//! `boot_clock, engine, etcd, journal ← cluster` · `boot_clock, threads, journal, engine ← desk` ·
//! `text, engine ← token` · `text, threads, key, engine, journal, git ← ledger` · `text, wire ← tools` ·
//! `text, threads, key, engine, desk, token, wire, tools ← http` ·
//! `wire ← client` · `text, token, wire, git, client ← local` · `text, wire, git, client, local ← judge` ·
//! `text, wire, git, client, local, judge ← hook` · `text, boot_clock, wire, git, client, local, judge ← agent` ·
//! `wire, git, client, local, tools ← mcp` ·
//! `text, key, engine, etcd, journal, cluster, desk, ledger, token, wire, http, git, client, local ← serve` ·
//! `text, key, token, wire, git, client, local, judge, hook, agent, mcp, serve ← cli`.
//! `tests/rooms.rs` keeps these arrows true, without exceptions. One dependency is not an arrow: the journal keeps the
//! records that the ledger has not written yet. `serve` passes the ledger's position on, and truncation waits for it.
//!
//! # Glossary
//!
//! * **Session**: a worker that reserves. It has an id, opens with its first call, and ends once.
//! * **Session file**: a private file that leads a process without `DIBS_TOKEN` to its session, through `DIBS_RUN`.
//! * **Key**: one thing that can be reserved: a path, a pattern, a logical name, a resource URI. Never a credential.
//! * **Reservation**: a key held by a session, exclusive or shared, until it is released or its TTL runs out.
//! * **Holder**: the session of a reservation. **Waiter**: a queued request with all its keys.
//! * **Blocker**: a reservation, or a waiter ahead in the queue, that conflicts with a request.
//! * **Place**: a key in the index: its holders, its waiters, its version.
//! * **Seq**: the number of a record. **Fence**: the seq that granted a reservation. **Generation**: the records since an
//!   earlier copy of the journal was restored; their numbers begin at a multiple of 2^40.
//! * **Command**: a request to the engine. **Event**: a change. **Record**: an event with its seq and time.
//! * **Outcome**: what a command achieved. **Refusal**: why it was not carried out.
//! * **Turn**: what the engine collects while it executes commands at one moment: the time, records, ended waits.
//! * **UnlockRequest**: a session asks a holder to release. **Notice**: what a session should know, sent with a reply.
//! * **Feed**: records as they become durable. **Follower**: a reader of the feed.
//! * **Desk**: the thread that decides (`Worker`), and the handle to it. **Metrics**: what it counts and times.
//! * **Listening time**: the clock of deadlines; it stands still while the desk is away. **Intake**: the connections that
//!   bring messages to the desk.
//! * **Node**: a server of a cluster. **Leader**: the node that runs the desk of a repository. **Follower**: there, a node
//!   that sends requests to the leader. **Epoch**: one leader's time; the revision that created its key in etcd.
//!   **Lease**: what etcd takes a node's keys away by when the node is gone. **Hop**: a request from node to node.
//! * **Journal**: the durable records. **Image**: recorded state as one value, for snapshots.
//! * **Ledger**: the history in git. **Flush**: the events since the last commit, as one commit. **Lag**: the events
//!   that are not committed yet.
//! * **Limit**: a bound with a name in the configuration. **Policy**: what the configuration allows.
//! * **Token**: a JWT. **Claims**: its contents. **Scope**: what it permits. **Keyring**: the keys that verify it.
//! * **Lock**: a reservation of one path as a Git LFS client sees it, or one of the files that a pattern covers.
//! * **Login**: a browser's cookie, made from a token and with its rights. **Code**: what signs a browser in, once.
//! * **Destination**: a server as the recipient of a token; it does not get every token.
//! * **Moment**: the git hook that runs. **Occasion**: a moment as `judge` sees it: its name and its defaults.
//! * **Verdict**: pass, warn or block.
//! * **Agent**: a coding agent. **Keeper**: the process beside an agent that keeps its session alive and ends it.

pub mod agent;
pub mod boot_clock;
pub mod cli;
pub mod client;
pub mod cluster;
pub mod desk;
pub mod engine;
pub mod etcd;
pub mod git;
pub mod hook;
pub mod http;
pub mod journal;
pub mod judge;
pub mod key;
pub mod ledger;
pub mod local;
pub mod mcp;
pub mod serve;
pub mod text;
pub mod threads;
pub mod token;
pub mod tools;
pub mod wire;
