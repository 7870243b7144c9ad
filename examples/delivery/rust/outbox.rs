//! An outbox and an inbox in SQLite: each order is billed once, whichever process is killed.
//!
//! cargo run --example delivery_outbox FILE create          the tables
//! cargo run --example delivery_outbox FILE shop COUNT      orders, each in one transaction with its message
//! cargo run --example delivery_outbox FILE relay           sends the messages, until it is killed
//! cargo run --example delivery_outbox FILE billing COUNT   bills, each with the record of its message

use std::error::Error;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pinnace::delivery::{Client, Error as DeliveryError, Options, sql};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The most rows that the relay sends at once.
const BATCH: u32 = 100;
const IDLE: Duration = Duration::from_millis(10);

fn create(database: &Connection) -> Result<()> {
    database.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY)")?;
    database.execute_batch("CREATE TABLE bills (place INTEGER PRIMARY KEY, number INTEGER)")?;
    database.execute_batch(sql::OUTBOX_SCHEMA_SQLITE)?;
    Ok(database.execute_batch(sql::CURSOR_SCHEMA)?)
}

fn shop(database: &mut Connection, count: i64) -> Result<()> {
    let last: i64 =
        database.query_row("SELECT COALESCE(MAX(number), 0) FROM orders", [], |row| row.get(0))?;
    for number in last + 1..=count {
        // The order and its message are committed together, or neither is.
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("INSERT INTO orders VALUES (?1)", [number])?;
        let enqueue = "INSERT INTO pinnace_outbox (topic, body) VALUES ('invoices', ?1)";
        transaction.execute(enqueue, [number.to_string().as_bytes()])?;
        let row = transaction.last_insert_rowid();
        let header = "INSERT INTO pinnace_outbox_headers (row_id, name, value) VALUES (?1, 'currency', ?2)";
        transaction.execute(header, params![row, b"EUR"])?;
        transaction.commit()?;
        println!("{number}");
    }
    Ok(())
}

/// A row of the outbox.
struct Row {
    id: i64,
    message_id: String,
    topic: String,
    body: Vec<u8>,
    to_all: bool,
    ttl_ms: Option<u32>,
    content_type: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    ordering_key: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
}

/// The next rows in their order, if this client's store is the outbox's own.
fn next(database: &mut Connection, store_id: &str) -> Result<Vec<Row>> {
    let owner =
        |of: &Connection| of.query_row(sql::OUTBOX_OWNER, [], |row| row.get::<_, String>(0)).optional();
    if owner(database)?.is_none() {
        database.execute(sql::OUTBOX_CLAIM, [store_id])?;
    }
    if owner(database)?.as_deref() != Some(store_id) {
        return Err("the outbox belongs to another store".into());
    }
    let transaction = database.transaction()?;
    let read = |row: &rusqlite::Row| {
        Ok(Row {
            id: row.get(0)?,
            message_id: row.get(1)?,
            topic: row.get(2)?,
            // SQLite stores a text that was inserted as such.
            body: row.get_ref(3)?.as_bytes()?.to_vec(),
            to_all: row.get(4)?,
            ttl_ms: row.get(5)?,
            content_type: row.get(6)?,
            traceparent: row.get(7)?,
            tracestate: row.get(8)?,
            ordering_key: row.get(9)?,
            headers: Vec::new(),
        })
    };
    let mut rows: Vec<Row> = transaction
        .prepare_cached(sql::OUTBOX_NEXT)?
        .query_map([BATCH], read)?
        .collect::<rusqlite::Result<_>>()?;
    if let [first, ..] = &rows[..] {
        let mut statement = transaction.prepare_cached(sql::OUTBOX_HEADERS)?;
        let mut headers = statement.query([first.id, rows[rows.len() - 1].id])?;
        while let Some(header) = headers.next()? {
            let of: i64 = header.get(0)?;
            if let Some(row) = rows.iter_mut().find(|row| row.id == of) {
                row.headers.push((header.get(1)?, header.get_ref(2)?.as_bytes()?.to_vec()));
            }
        }
    }
    transaction.commit()?;
    Ok(rows)
}

/// The client does not accept the row as it is.
fn is_of_row(error: &DeliveryError) -> bool {
    use DeliveryError::{Name, Property, TooLarge, Ttl};
    matches!(error, Name | TooLarge | Ttl | Property(_))
}

/// Sends the next rows, and deletes them when they are on the disk. Returns their number.
fn relay_some(database: &mut Connection, client: &Client) -> Result<usize> {
    let rows = next(database, &client.store_id())?;
    let (mut last, mut refused) = (None, Vec::new());
    for row in &rows {
        let headers: Vec<(&str, &[u8])> =
            row.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let options = Options {
            id: Some(&row.message_id),
            all: row.to_all,
            ttl: row.ttl_ms.map(|ttl_ms| Duration::from_millis(ttl_ms.into())),
            content_type: row.content_type.as_deref(),
            traceparent: row.traceparent.as_deref(),
            tracestate: row.tracestate.as_deref(),
            ordering_key: row.ordering_key.as_deref(),
            headers: &headers,
            ..Options::default()
        };
        match client.send_async(&row.topic, &row.body, &options) {
            Ok(ticket) => last = last.max(Some(u64::from(ticket))),
            Err(error) if is_of_row(&error) => refused.push((row.id, error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    // Messages reach the disk in the order of their tickets.
    last.map_or(Ok(()), |last| client.wait(last.into(), None))?;
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (id, error) in &refused {
        eprintln!("row {id} of the outbox cannot be sent: {error}");
        transaction.execute(sql::OUTBOX_REFUSE, params![error, id])?;
    }
    for row in rows.iter().filter(|row| !refused.iter().any(|(id, _)| *id == row.id)) {
        transaction.prepare_cached(sql::OUTBOX_DELETE)?.execute([row.id])?;
    }
    transaction.commit()?;
    Ok(rows.len())
}

fn relay(database: &mut Connection) -> Result<()> {
    // Ids that count for ever: a relay that was killed after it has sent a row does not send it twice.
    let client = Client::builder("shop", "orders").deduplicate_for(Duration::MAX).start()?;
    // This example ends by a signal; a service is told here when to end.
    let (_end, ended) = channel::<()>();
    while relay_some(database, &client)? > 0 || ended.recv_timeout(IDLE) == Err(RecvTimeoutError::Timeout) {}
    Ok(())
}

fn billing(database: &mut Connection, count: i64) -> Result<()> {
    let client = Client::builder("billing", "invoices").start()?;
    let mut billed = 0;
    while billed < count {
        let order = client.recv(None)?;
        billed = str::from_utf8(order.body())?.parse()?;
        let cursor = order.cursor();
        let (sender, stream) = (cursor.sender_text(), cursor.stream as i64);
        // The bill and the record that its message was handled are committed together, or neither is.
        let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let key = params![client.name(), sender, stream, cursor.number as i64];
        if transaction.execute(sql::CURSOR_INSERT, key)? == 1 {
            let settled = params![client.name(), sender, stream, cursor.settled as i64];
            transaction.execute(sql::CURSOR_FORGET, settled)?;
            transaction.execute("INSERT INTO bills (number) VALUES (?1)", [billed])?;
        }
        transaction.commit()?;
        order.ack();
        println!("{billed}");
    }
    Ok(client.drain(Some(Instant::now() + Duration::from_secs(10)))?)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [file, role, ref count @ ..] = words[..] else {
        return Err("FILE create|shop|relay|billing [COUNT]".into());
    };
    let count = count.first().map_or(Ok(0), |count| count.parse())?;
    let mut database = Connection::open(file)?;
    database.busy_timeout(Duration::from_secs(60))?;
    // A commit is on the disk, and readers do not wait for writers.
    database.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
    match role {
        "create" => create(&database),
        "shop" => shop(&mut database, count),
        "relay" => relay(&mut database),
        "billing" => billing(&mut database, count),
        _ => Err("the role is create, shop, relay or billing".into()),
    }
}
