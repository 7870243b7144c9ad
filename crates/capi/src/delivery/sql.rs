//! The SQL texts for the application's own database.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use pinnace_delivery::sql;

use super::c_text;
use super::call_error::{CallError, delivery_call};

/// In the order of the numbers PINNACE_SQL_... of `pinnace_delivery.h`.
const TEXTS: [&str; 10] = [
    sql::OUTBOX_SCHEMA_SQLITE,
    sql::OUTBOX_SCHEMA_POSTGRESQL,
    sql::OUTBOX_OWNER,
    sql::OUTBOX_CLAIM,
    sql::OUTBOX_NEXT,
    sql::OUTBOX_HEADERS,
    sql::OUTBOX_DELETE,
    sql::OUTBOX_REFUSE,
    sql::CURSOR_INSERT,
    sql::CURSOR_FORGET,
];

/// An SQL text by its number; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_sql(text: c_int) -> *const c_char {
    static IN_C: OnceLock<[CString; TEXTS.len()]> = OnceLock::new();
    delivery_call(|| {
        let texts = IN_C.get_or_init(|| TEXTS.map(c_text));
        let found = usize::try_from(text).ok().and_then(|at| texts.get(at));
        let none = || CallError::new(libc::EINVAL, format!("there is no SQL text with the number {text}"));
        Ok(found.ok_or_else(none)?.as_ptr())
    })
}
