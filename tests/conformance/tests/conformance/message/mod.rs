//! Messages: their life cycle, and the accounting of each.

mod books;
mod messages;
