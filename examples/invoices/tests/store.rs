//! What both stores promise, whatever the holders do.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "the test runner shows what a failed test said")]

use std::sync::Barrier;

use invoices::store::{self, Invoice, InvoiceStore, Pass, StaleFence, Written};
use private_databases::PrivatePostgres;

const LOCK: &str = "nightly-invoices:2026-11";

fn invoice(customer: i64, fence: u64) -> Invoice {
    let (month, written_by) = ("2026-11".to_owned(), format!("holder-{fence}"));
    Invoice { customer, month, amount_cents: 1_900, fence, written_by }
}

fn pass(fence: u64) -> Pass {
    Pass { lock: LOCK.into(), fence }
}

/// Tests every promise on a new SQLite file each, and all of them on PostgreSQL where that is installed.
macro_rules! both_stores_promise {
    ($($promise:ident,)*) => {
        mod on_sqlite {
            $(
                #[test]
                fn $promise() {
                    let folder = tempfile::tempdir().unwrap();
                    super::$promise(folder.path().join("invoices.db").to_str().unwrap());
                }
            )*
        }

        /// One server for all of them: it takes longer to start than they take.
        #[test]
        fn postgres_keeps_the_same_promises() {
            let Some(postgres) = PrivatePostgres::start() else { return };
            $(
                println!("{}", stringify!($promise));
                $promise(&postgres.new_database(stringify!($promise)));
            )*
        }
    };
}

both_stores_promise! {
    an_older_fence_is_refused_and_leaves_no_trace,
    a_new_run_shuts_the_door_on_older_ones_before_it_writes_anything,
    an_invoice_that_is_there_stays_as_it_is_but_the_fence_rises,
    the_fences_of_different_locks_are_apart,
    fences_compare_as_numbers_up_to_the_last_one,
    of_two_holders_that_write_at_once_the_older_one_never_gets_in_after_the_newer_one,
    stores_that_are_opened_at_once_make_their_tables_once,
    a_customer_that_left_is_not_among_the_customers,
}

fn table(store: &mut dyn InvoiceStore) -> Vec<Invoice> {
    store.invoices("2026-11").unwrap()
}

fn an_older_fence_is_refused_and_leaves_no_trace(db: &str) {
    let mut store = store::open(db).unwrap();
    assert_eq!(store.write(LOCK, &invoice(1, 7)).unwrap(), Ok(Written::New));
    assert_eq!(store.write(LOCK, &invoice(2, 8)).unwrap(), Ok(Written::New));
    let stale = StaleFence { fence: 7, newest: 8 };
    assert_eq!(store.write(LOCK, &invoice(3, 7)).unwrap(), Err(stale));
    assert_eq!(store.begin_run(&pass(7)).unwrap(), Err(stale));
    assert_eq!(table(&mut *store), [invoice(1, 7), invoice(2, 8)]);
    assert_eq!(store.newest_fence(LOCK).unwrap(), Some(8));
}

fn a_new_run_shuts_the_door_on_older_ones_before_it_writes_anything(db: &str) {
    let (mut old, mut new) = (store::open(db).unwrap(), store::open(db).unwrap());
    assert_eq!(old.begin_run(&pass(1)).unwrap(), Ok(()));
    assert_eq!(new.begin_run(&pass(2)).unwrap(), Ok(()));
    assert_eq!(old.write(LOCK, &invoice(1, 1)).unwrap(), Err(StaleFence { fence: 1, newest: 2 }));
}

fn an_invoice_that_is_there_stays_as_it_is_but_the_fence_rises(db: &str) {
    let mut store = store::open(db).unwrap();
    assert_eq!(store.write(LOCK, &invoice(1, 1)).unwrap(), Ok(Written::New));
    assert_eq!(store.write(LOCK, &invoice(1, 1)).unwrap(), Ok(Written::Already));
    assert_eq!(store.write(LOCK, &invoice(1, 5)).unwrap(), Ok(Written::Already));
    assert_eq!(table(&mut *store), [invoice(1, 1)]);
    assert_eq!(store.newest_fence(LOCK).unwrap(), Some(5));
}

fn the_fences_of_different_locks_are_apart(db: &str) {
    let mut store = store::open(db).unwrap();
    assert_eq!(store.newest_fence(LOCK).unwrap(), None);
    assert_eq!(store.write("another", &invoice(1, 9)).unwrap(), Ok(Written::New));
    assert_eq!(store.write(LOCK, &invoice(2, 3)).unwrap(), Ok(Written::New));
    assert_eq!(store.newest_fence(LOCK).unwrap(), Some(3));
}

fn fences_compare_as_numbers_up_to_the_last_one(db: &str) {
    let mut store = store::open(db).unwrap();
    let last = (1 << 53) - 1;
    for fence in [9, 10, 1 << 40, last] {
        assert_eq!(store.begin_run(&pass(fence)).unwrap(), Ok(()));
    }
    assert_eq!(store.begin_run(&pass(10)).unwrap(), Err(StaleFence { fence: 10, newest: last }));
}

/// Two holders write the same customers at once. Whoever is refused at one of them must be refused at all later ones.
fn of_two_holders_that_write_at_once_the_older_one_never_gets_in_after_the_newer_one(db: &str) {
    let start = Barrier::new(2);
    let write_all = |fence: u64, customers: &[i64]| -> Vec<bool> {
        let mut store = store::open(db).unwrap();
        start.wait();
        customers.iter().map(|id| store.write(LOCK, &invoice(*id, fence)).unwrap().is_ok()).collect()
    };
    let ids: Vec<i64> = (1..=50).collect();
    let later: Vec<i64> = (101..=150).collect();
    let (older, newer) = std::thread::scope(|scope| {
        let older = scope.spawn(|| write_all(1, &ids));
        let newer = scope.spawn(|| write_all(2, &later));
        (older.join().unwrap(), newer.join().unwrap())
    });
    assert!(newer.iter().all(|written| *written), "the newer one is never refused");
    assert!(
        older.is_sorted_by(|earlier, later| earlier >= later),
        "refused once, refused for good: {older:?}"
    );
    let mut store = store::open(db).unwrap();
    let written = older.iter().filter(|written| **written).count();
    assert_eq!(table(&mut *store).len(), 50 + written, "what was refused left nothing");
}

fn stores_that_are_opened_at_once_make_their_tables_once(db: &str) {
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                store::open(db).unwrap().add_customers(5).unwrap();
            });
        }
    });
    assert_eq!(store::open(db).unwrap().customers().unwrap().len(), 5);
}

fn a_customer_that_left_is_not_among_the_customers(db: &str) {
    let mut store = store::open(db).unwrap();
    store.add_customers(3).unwrap();
    store.remove_customer(2).unwrap();
    let ids: Vec<i64> = store.customers().unwrap().iter().map(|customer| customer.id).collect();
    assert_eq!(ids, [1, 3]);
}
