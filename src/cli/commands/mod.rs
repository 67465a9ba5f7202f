//! The commands: a file for each, with its arguments and its work.

pub mod approve;
pub mod check;
pub mod db;
pub mod doctor;
pub mod hook;
pub mod install;
pub mod ledger;
pub mod log;
pub mod reject;
pub mod release;
pub mod renew;
pub mod request;
pub mod requests;
pub mod reserve;
pub mod rlock;
pub mod run;
pub mod serve;
pub mod session;
pub mod status;
pub mod token;
pub mod uninstall;
pub mod wait;
pub mod who;
pub mod withdraw;
