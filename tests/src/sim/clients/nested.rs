//! Clients that hold one lock and wait for the next: some of them get into a circle.

use super::{Client, Labelled, Wish, pause_ms, pick};
use crate::sim::executor::{Nanos, below, now, one_in};
use crate::sim::holding::Holding;
use crate::sim::lines::Came;

/// So many locks at most are held at a time.
const DEPTH_MAX: usize = 3;

impl Client {
    pub(super) async fn use_nested(&mut self, holdings: &[Holding], until: Nanos) {
        let mut held: Vec<Wish> = Vec::new();
        for lock in shuffled(holdings.len()).into_iter().take(DEPTH_MAX) {
            if now() >= until {
                break;
            }
            let wish = self.new_wish(lock, holdings[usize::try_from(lock).expect("few")]);
            // It stays as long as it may take to get the next one.
            let wait_ms = wish.wait_ms.clamp(800, 4_000);
            let ttl_ms = pick(&[2_500, 5_000]);
            let wish = Wish { labelled: Labelled::Client, ttl_ms, wait_ms, ..wish };
            let came = self.acquire_while_keeping(wish, &held).await;
            self.old.push(wish);
            if !matches!(came, Came::Granted(..)) {
                self.learn(lock, &came);
                break;
            }
            held.push(wish);
            pause_ms(below(150)).await;
        }
        if one_in(12) && now() < until {
            return pause_ms(below(2_000)).await; // Nobody hears of it for a while.
        }
        for wish in held.into_iter().rev() {
            self.release(wish).await;
        }
    }

    /// Renews what it has while it waits.
    async fn acquire_while_keeping(&self, wish: Wish, held: &[Wish]) -> Came {
        let keep = async {
            loop {
                pause_ms(700 + below(600)).await;
                for wish in held {
                    self.renew(*wish).await;
                }
            }
        };
        tokio::select! {
            biased;
            came = self.acquire(wish) => came,
            () = keep => unreachable!("it goes on until the other is over"),
        }
    }
}

/// The numbers of so many locks in any order.
pub(super) fn shuffled(locks: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..locks as u64).collect();
    for at in (1..numbers.len()).rev() {
        numbers.swap(at, usize::try_from(below(at as u64 + 1)).expect("few"));
    }
    numbers
}
