//! Messages: their life, and where each one went.

mod books;
mod messages;
