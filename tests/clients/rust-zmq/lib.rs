//! Empty: Cargo wants a target in a package that fetches another.
