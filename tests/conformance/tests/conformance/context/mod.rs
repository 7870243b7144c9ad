//! Contexts, and functions that belong to no socket.

mod contexts;
mod entry_points;
mod exports;
mod helpers;
mod idle_memory;
mod monitoring;
mod proxying;
mod statistics;
mod surface;
