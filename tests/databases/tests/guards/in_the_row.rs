//! What a fence in the protected row promises.

use std::sync::Barrier;

use crate::store::{Connection, Refusal, Store, Value, assert_stale, template};

const UPDATE: &str = "UPDATE reports SET body = $1, fence = $2 WHERE id = $3";
const CONDITIONAL_UPDATE: &str = "UPDATE reports SET body = $1, fence = $2 WHERE id = $3 AND fence <= $2";

/// Gives the table of reports its fence as the template in the file of the guards has it, and one row.
fn fenced_reports(store: &dyn Store) -> Box<dyn Connection> {
    store.script(&template(store.guards()));
    let mut connection = store.connect();
    connection.run("INSERT INTO reports (id, body) VALUES (1, 'first')", &[]).unwrap();
    connection
}

fn update(connection: &mut dyn Connection, sql: &str, body: &str, fence: i64) -> Result<u64, Refusal> {
    connection.run(sql, &[Value::Text(body), Value::Number(fence), Value::Number(1)])
}

pub(crate) fn a_row_with_a_fence_refuses_older_updates(store: &dyn Store) {
    let connection = &mut *fenced_reports(store);
    for (body, fence) in [("a", 3), ("b", 3), ("c", 5)] {
        assert_eq!(update(connection, UPDATE, body, fence), Ok(1));
    }
    assert_stale(update(connection, UPDATE, "late", 4));
    assert!(connection.run("UPDATE reports SET fence = NULL", &[]).is_err(), "no fence is no pass");
    assert_eq!(connection.numbers("SELECT fence FROM reports WHERE body = 'c'"), [5]);
}

pub(crate) fn an_update_under_the_condition_of_its_fence_changes_no_row_for_an_older_one(store: &dyn Store) {
    let connection = &mut *fenced_reports(store);
    for (body, fence) in [("a", 3), ("b", 3), ("c", 5)] {
        assert_eq!(update(connection, CONDITIONAL_UPDATE, body, fence), Ok(1));
    }
    assert_eq!(update(connection, CONDITIONAL_UPDATE, "late", 4), Ok(0));
    assert_eq!(connection.numbers("SELECT fence FROM reports WHERE body = 'c'"), [5]);
}

/// Two holders update one row, again and again, each with the fence of its turn.
pub(crate) fn the_older_of_two_updates_at_once_never_lands_on_the_newer_one(store: &dyn Store) {
    let setup = &mut *fenced_reports(store);
    let start = Barrier::new(2);
    let update_all = |age: i64| {
        let connection = &mut *store.connect();
        for round in 1..=50 {
            start.wait();
            let fence = 2 * round + age;
            let updated = loop {
                match update(connection, UPDATE, &format!("by {fence}"), fence) {
                    Err(Refusal::Again) => {}
                    other => break other,
                }
            };
            match updated {
                Err(Refusal::Stale(_)) if age == 0 => {}
                other => assert_eq!(other, Ok(1)),
            }
            if start.wait().is_leader() {
                let newest = 2 * round + 1;
                let sql =
                    format!("SELECT fence FROM reports WHERE fence = {newest} AND body = 'by {newest}'");
                assert_eq!(connection.numbers(&sql), [newest]);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| update_all(0));
        scope.spawn(|| update_all(1));
    });
    assert_eq!(setup.numbers("SELECT fence FROM reports"), [101]);
}
