//! What holds when two holders write at the same time.

use std::sync::{Barrier, mpsc};

use crate::store::{Refusal, Store, Value, assert_stale, write};

const ROUNDS: i64 = 50;

/// In each round a lock that nobody knows yet, and two holders of it that each make their first write.
pub(crate) fn the_older_of_two_first_writes_at_once_never_lands_after_the_newer_one(store: &dyn Store) {
    let start = Barrier::new(2);
    let write_all = |age: i64| -> Vec<bool> {
        let connection = &mut *store.connect();
        let one_round = |round| {
            start.wait();
            match write(store, connection, (&format!("lock-{round}"), 2 * round + age), round) {
                Ok(()) => true,
                Err(Refusal::Stale(_)) => false,
                Err(other) => panic!("{other:?}"),
            }
        };
        (1..=ROUNDS).map(one_round).collect()
    };
    let connection = &mut *store.connect();
    for round in 1..=ROUNDS {
        connection.run("INSERT INTO last_writes VALUES ($1, 0)", &[Value::Number(round)]).unwrap();
    }
    let (older, newer) = std::thread::scope(|scope| {
        let (older, newer) = (scope.spawn(|| write_all(0)), scope.spawn(|| write_all(1)));
        (older.join().unwrap(), newer.join().unwrap())
    });
    println!("the older one was first in {} of {ROUNDS} rounds", older.iter().filter(|is| **is).count());
    assert_eq!(newer, [true; ROUNDS as usize], "the newer one is never refused");
    let told = (1..=ROUNDS).zip(&older).flat_map(|(round, is_in)| match is_in {
        true => vec![2 * round, 2 * round + 1],
        false => vec![2 * round + 1],
    });
    let written = connection.numbers("SELECT fence FROM written ORDER BY fence");
    assert_eq!(written, told.collect::<Vec<_>>(), "what was refused left nothing, what was taken is there");
    let last = connection.numbers("SELECT fence FROM last_writes ORDER BY round");
    let newest: Vec<_> = (1..=ROUNDS).map(|round| 2 * round + 1).collect();
    assert_eq!(last, newest, "the last write is always that of the newer one");
}

/// The first transaction is open while the second one asks to be let in. Returns the ruling on the second one.
fn second_while_first_is_open(store: &dyn Store, first: i64, second: i64, end: &str) -> Result<(), Refusal> {
    let connection = &mut *store.connect();
    connection.run("INSERT INTO last_writes VALUES (1, 0)", &[]).unwrap();
    connection.run(store.begin(), &[]).unwrap();
    connection.run(store.guard(), &[Value::Text("nightly"), Value::Number(first)]).unwrap();
    connection.run("UPDATE last_writes SET fence = $1", &[Value::Number(first)]).unwrap();
    let (asks, asked) = mpsc::channel();
    std::thread::scope(|scope| {
        let ruling = scope.spawn(move || {
            let connection = &mut *store.connect();
            asks.send(()).unwrap();
            write(store, connection, ("nightly", second), 1)
        });
        asked.recv().unwrap();
        connection.run(end, &[]).unwrap();
        ruling.join().unwrap()
    })
}

pub(crate) fn a_newer_holder_comes_after_the_open_transaction_of_an_older_one(store: &dyn Store) {
    second_while_first_is_open(store, 1, 2, "COMMIT").unwrap();
    assert_eq!(store.connect().numbers("SELECT fence FROM last_writes"), [2]);
}

pub(crate) fn an_older_holder_is_refused_after_the_open_transaction_of_a_newer_one(store: &dyn Store) {
    assert_stale(second_while_first_is_open(store, 2, 1, "COMMIT"));
    assert_eq!(store.connect().numbers("SELECT fence FROM last_writes"), [2]);
}

pub(crate) fn an_older_holder_gets_in_after_a_newer_one_that_rolled_back(store: &dyn Store) {
    second_while_first_is_open(store, 2, 1, "ROLLBACK").unwrap();
    assert_eq!(store.connect().numbers("SELECT fence FROM last_writes"), [1]);
}
