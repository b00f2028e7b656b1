//! What the guard of a transaction promises, and the list of all promises.

use crate::store::{Refusal, Store, Value, assert_stale, write};
use crate::{in_the_row, races};

/// The highest number that a fence can be.
const LAST: i64 = (1 << 53) - 1;

/// A promise, and how it is called.
pub(crate) type Promise = (&'static str, fn(&dyn Store));

macro_rules! promises {
    ($($promise:path,)*) => { &[$((stringify!($promise), $promise)),*] };
}

/// Every promise.
pub(crate) const ALL: &[Promise] = promises! {
    a_stale_fence_is_refused_and_its_transaction_changes_nothing,
    one_holder_writes_many_times_until_a_newer_one_takes_over,
    a_lock_that_is_not_known_begins_with_its_first_fence,
    fences_in_the_store_compare_as_numbers_up_to_the_last_one,
    fences_of_locks_with_similar_names_are_apart,
    names_with_quotes_are_names_and_nothing_else,
    what_is_no_fence_is_refused,
    a_transaction_that_is_rolled_back_has_raised_no_fence,
    installing_the_guards_again_keeps_the_fences,
    races::the_older_of_two_first_writes_at_once_never_lands_after_the_newer_one,
    races::a_newer_holder_comes_after_the_open_transaction_of_an_older_one,
    races::an_older_holder_is_refused_after_the_open_transaction_of_a_newer_one,
    races::an_older_holder_gets_in_after_a_newer_one_that_rolled_back,
    in_the_row::a_row_with_a_fence_refuses_older_updates,
    in_the_row::an_update_under_the_condition_of_its_fence_changes_no_row_for_an_older_one,
    in_the_row::the_older_of_two_updates_at_once_never_lands_on_the_newer_one,
};

fn a_stale_fence_is_refused_and_its_transaction_changes_nothing(store: &dyn Store) {
    let connection = &mut *store.connect();
    write(store, connection, ("nightly", 8), 1).unwrap();
    connection.run(store.begin(), &[]).unwrap();
    connection.run("INSERT INTO written (round, fence) VALUES (1, 7)", &[]).unwrap();
    assert_stale(connection.run(store.guard(), &[Value::Text("nightly"), Value::Number(7)]));
    connection.run("ROLLBACK", &[]).unwrap();
    assert_stale(write(store, connection, ("nightly", 7), 1));
    assert_eq!(connection.numbers("SELECT fence FROM written"), [8]);
    assert_eq!(connection.numbers("SELECT fence FROM holdfast_fences"), [8]);
}

fn one_holder_writes_many_times_until_a_newer_one_takes_over(store: &dyn Store) {
    let connection = &mut *store.connect();
    for fence in [3, 3, 3, 5, 5] {
        write(store, connection, ("nightly", fence), 1).unwrap();
    }
    assert_stale(write(store, connection, ("nightly", 3), 1));
    write(store, connection, ("nightly", 5), 1).unwrap();
    assert_eq!(connection.numbers("SELECT fence FROM written ORDER BY fence"), [3, 3, 3, 5, 5, 5]);
}

fn a_lock_that_is_not_known_begins_with_its_first_fence(store: &dyn Store) {
    let connection = &mut *store.connect();
    write(store, connection, ("nightly", 4_711), 1).unwrap();
    assert_stale(write(store, connection, ("nightly", 4_710), 1));
    write(store, connection, ("weekly", 1), 1).unwrap();
}

fn fences_in_the_store_compare_as_numbers_up_to_the_last_one(store: &dyn Store) {
    let connection = &mut *store.connect();
    for fence in [9, 10, 1 << 40, LAST] {
        write(store, connection, ("nightly", fence), 1).unwrap();
    }
    for older in [10, LAST - 1] {
        assert_stale(write(store, connection, ("nightly", older), 1));
    }
}

/// Names are compared byte by byte, up to the longest one.
fn fences_of_locks_with_similar_names_are_apart(store: &dyn Store) {
    let connection = &mut *store.connect();
    let long = "é".repeat(256);
    let longer_part = &long[..510];
    let names = ["job", "Job", "job ", "jobs", "jób", "jo\u{301}b", &long, longer_part, "%", "_", "🔒"];
    for (name, fence) in names.iter().zip((1..=20).rev()) {
        write(store, connection, (name, fence), 1).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
    }
    for (name, fence) in names.iter().zip((1..=20).rev()).filter(|(_, fence)| *fence > 1) {
        assert_stale(write(store, connection, (name, fence - 1), 1));
    }
}

fn names_with_quotes_are_names_and_nothing_else(store: &dyn Store) {
    let connection = &mut *store.connect();
    let names = ["it's", "it''s", "\"", "`", "\\", "\\'", "'); DROP TABLE holdfast_fences; --", "$1 ? :a %s"];
    for name in names {
        write(store, connection, (name, 2), 1).unwrap();
        write(store, connection, (name, 2), 1).unwrap();
        assert_stale(write(store, connection, (name, 1), 1));
    }
    assert_eq!(connection.numbers("SELECT fence FROM holdfast_fences"), [2; 8]);
}

fn what_is_no_fence_is_refused(store: &dyn Store) {
    let connection = &mut *store.connect();
    for known in [false, true] {
        for fence in ["0", "-1", "NULL"] {
            let guard = store.guard().replace("$2", fence);
            let ruling = connection.run(&guard, &[Value::Text("nightly")]);
            assert!(matches!(ruling, Err(Refusal::Stale(_) | Refusal::Other(_))), "{fence}: {ruling:?}");
        }
        let guard = store.guard().replace("$1", "NULL").replace("$2", "7");
        let ruling = connection.run(&guard, &[]);
        assert!(matches!(ruling, Err(Refusal::Other(_))), "no name: {ruling:?}");
        if !known {
            write(store, connection, ("nightly", 5), 1).unwrap();
        }
    }
    assert_eq!(connection.numbers("SELECT fence FROM holdfast_fences"), [5]);
}

fn a_transaction_that_is_rolled_back_has_raised_no_fence(store: &dyn Store) {
    let connection = &mut *store.connect();
    for fence in [1, 9] {
        connection.run(store.begin(), &[]).unwrap();
        connection.run(store.guard(), &[Value::Text("nightly"), Value::Number(fence + 1)]).unwrap();
        connection.run("ROLLBACK", &[]).unwrap();
        write(store, connection, ("nightly", fence), 1).unwrap();
    }
}

fn installing_the_guards_again_keeps_the_fences(store: &dyn Store) {
    let connection = &mut *store.connect();
    write(store, connection, ("nightly", 8), 1).unwrap();
    store.script(store.guards());
    assert_stale(write(store, connection, ("nightly", 7), 1));
    write(store, connection, ("nightly", 8), 1).unwrap();
}
