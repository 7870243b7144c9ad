//! Effects applied exactly once, in the receiver's own database.

use std::time::{Duration, Instant};

use pinnace_delivery::{CURSOR_SCHEMA, Delivery, Durability, Options};
use rusqlite::{Connection, params};

use crate::common::client;

/// Adds a message's amount to a sum, once. False: it was added before.
fn handle(database: &mut Connection, delivery: &Delivery) -> bool {
    let cursor = delivery.cursor();
    let key = (delivery.from(), cursor.sender_text(), cursor.stream as i64);
    let transaction = database.transaction().unwrap();
    let insert = "INSERT OR IGNORE INTO pinnace_handled VALUES (?1, ?2, ?3, ?4)";
    let new = transaction.execute(insert, params![key.0, key.1, key.2, cursor.number as i64]).unwrap() == 1;
    if new {
        let amount: i64 = std::str::from_utf8(delivery.body()).unwrap().parse().unwrap();
        transaction.execute("UPDATE account SET sum = sum + ?1", [amount]).unwrap();
        let forget =
            "DELETE FROM pinnace_handled WHERE client = ?1 AND sender = ?2 AND stream = ?3 AND number <= ?4";
        transaction.execute(forget, params![key.0, key.1, key.2, cursor.settled as i64]).unwrap();
        transaction.commit().unwrap();
    }
    new
}

#[test]
fn who_crashes_between_effect_and_acknowledgement_does_not_repeat_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Connection::open(dir.path().join("own.sqlite")).unwrap();
    database.execute_batch(CURSOR_SCHEMA).unwrap();
    database.execute_batch("CREATE TABLE account (sum BIGINT); INSERT INTO account VALUES (0)").unwrap();
    // A path, which no other client can take while the receiver is away.
    let endpoint = format!("ipc://{}", dir.path().join("receiver.sock").display());
    let sender = client("sender", dir.path()).peer("receiver", &endpoint, &["money"]).start().unwrap();
    for number in 1..=200 {
        let durability = if number % 3 == 0 { Durability::Memory } else { Durability::Interval };
        let options = Options { durability, ..Options::default() };
        sender.send("money", format!("{number}").as_bytes(), &options).unwrap();
    }
    let (mut effects, mut again) = (0, 0);
    while sender.pending() > 0 {
        // Each round handles some messages, and ends before the last one is acknowledged.
        let receiver = client("receiver", dir.path()).listen(&endpoint).start().unwrap();
        for at in 0..20 {
            let within = Instant::now() + Duration::from_secs(if at == 0 { 20 } else { 1 });
            let Ok(delivery) = receiver.recv(Some(within)) else { break };
            match handle(&mut database, &delivery) {
                true => effects += 1,
                false => again += 1,
            }
            if at == 19 {
                break;
            }
            delivery.ack();
        }
    }
    let sum: i64 = database.query_row("SELECT sum FROM account", [], |row| row.get(0)).unwrap();
    let rows: i64 = database.query_row("SELECT count(*) FROM pinnace_handled", [], |row| row.get(0)).unwrap();
    assert_eq!((effects, sum), (200, 200 * 201 / 2));
    assert!(again > 0, "nothing was delivered twice, so nothing was shown");
    assert!(rows < 100, "{rows} rows are kept");
}
