//! The command, run as in a shell.

mod common;
mod deliver;
mod deliver_agent;
mod deliver_exec;
mod deliver_headers;
mod deliver_metrics;
mod deliver_operate;
mod deliver_stores;
mod drafts;
mod files;
mod files_events;
mod files_failures;
mod forward;
mod forward_ends;
mod libzmq;
mod losses;
mod others;
mod outcomes;
mod proxy;
mod security;
mod send_recv;
