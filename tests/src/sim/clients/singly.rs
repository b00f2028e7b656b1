//! Clients that use one lock at a time: acquire, wait, renew, read, release, hang up, vanish, ask again elsewhere, replay
//! what is long over, change limits.

use std::time::Duration;

use holdfast_core::{HolderSummary, HolderView, Limit, Rejection};
use holdfast_replica::handle::{Acquired, Consistency};

use super::{CALL_PATIENCE, Client, Wish, any_lock, came_of, came_of_acquire, pause_ms};
use crate::sim::executor::{Nanos, below, now, one_in};
use crate::sim::faults::{Moment, Place};
use crate::sim::holding::Holding;
use crate::sim::lines::{Came, Deed, name};
use crate::sim::sometimes::saw;

impl Client {
    pub(super) async fn use_one(&mut self, holdings: &[Holding], until: Nanos) {
        let (lock, holding) = any_lock(holdings);
        if let Some(limit) = holding.new_limit() {
            self.set_limit(lock, limit).await;
        }
        let wish = Wish { terms: holding.terms(), ..self.new_wish(lock, holding) };
        if one_in(4) {
            let seen = self.read(wish.lock).await;
            self.intervene(wish.lock, &seen).await;
        }
        if one_in(6) {
            self.replay().await;
        }
        match (self.acquire(wish).await, holding) {
            (Came::Granted(..), Holding::Election) => self.lead(wish, until).await,
            (Came::Granted(..), _) => self.hold(wish, until).await,
            (came, _) => {
                self.learn(lock, &came);
                pause_ms(10 + below(100)).await;
            }
        }
        self.old.push(wish);
    }

    /// One attempt to acquire, asked again elsewhere with the same token while nobody knows.
    pub(super) async fn acquire(&self, wish: Wish) -> Came {
        let mut came = Came::NotDone;
        for _ in 0..4 {
            let hangs_up = hangs_up(wish.wait_ms);
            came = self.acquire_once(wish, hangs_up).await;
            match came {
                // One in five gives up for good.
                Came::NotDone | Came::Unknown if !one_in(5) && (hangs_up.is_none() || one_in(2)) => {
                    pause_before_asking_again().await;
                }
                _ => break,
            }
        }
        came
    }

    pub(super) async fn acquire_once(&self, wish: Wish, hangs_up: Option<Duration>) -> Came {
        let call = self.begin(wish, Deed::Acquire { wait_ms: wish.wait_ms });
        let wanted = wish.attempt();
        let patience = hangs_up.unwrap_or(Duration::from_millis(wish.wait_ms) + CALL_PATIENCE);
        let (moments, node) = (self.moments.clone(), call.node);
        let answer = self
            .ask(&call, patience, move |replica| {
                let (wanted, moments) = (wanted.clone(), moments.clone());
                async move {
                    let (acquired, delivery) = replica.acquire(wanted).await?;
                    delivery.delivered();
                    if matches!(acquired, Acquired::Granted(_)) {
                        moments.reach(Moment::ClientTold, Place::at(node)); // The answer is as good as gone.
                    }
                    Ok(acquired)
                }
            })
            .await;
        let came = came_of_acquire(answer, |grant| Came::Granted(grant.fence.0, grant.expires_in_ms));
        self.complete(&call, &came);
        came
    }

    pub(super) async fn renew(&self, wish: Wish) -> bool {
        let call = self.begin(wish, Deed::Renew);
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| async move {
                replica.renew(wish.name(), wish.attempt, None).await
            })
            .await;
        let came = came_of(answer, |grant| Came::Granted(grant.fence.0, grant.expires_in_ms));
        self.complete(&call, &came);
        matches!(came, Came::Granted(..))
    }

    pub(super) async fn release(&self, wish: Wish) {
        for _ in 0..3 {
            let came = self.release_once(wish).await;
            let is_over = !matches!(came, Came::Unknown | Came::NotDone);
            if is_over && !one_in(10) {
                return; // One in ten says it again.
            }
            pause_ms(below(300)).await;
        }
    }

    async fn release_once(&self, wish: Wish) -> Came {
        let call = self.begin(wish, Deed::Release);
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| async move {
                replica.release_run(wish.name(), wish.attempt, wish.run()).await
            })
            .await;
        let came = came_of(answer, |released| Came::Released(released.fence.map(|fence| fence.0)));
        self.complete(&call, &came);
        came
    }

    pub(super) async fn read(&self, lock: u64) -> Came {
        let call = self.begin(Wish::of_nobody(lock), Deed::Read);
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| async move {
                let look = move |table: &holdfast_core::LockTable, now| {
                    let view = table.view(&name(lock), now);
                    let holders = view.holders.into_iter().map(|holder| {
                        let HolderView { owner, fence, expires_in_ms, share, .. } = holder;
                        (HolderSummary { owner, fence, expires_in_ms }, share)
                    });
                    let queue = view.queue.into_iter().map(|waiter| waiter.owner);
                    (holders.collect(), queue.collect())
                };
                replica.read(Consistency::Linearizable, look).await
            })
            .await;
        let came = match answer {
            Ok(Ok((holders, queue))) => Came::Seen(holders, queue),
            Ok(Err(_)) | Err(_) => Came::Unknown,
        };
        self.complete(&call, &came);
        came
    }

    /// Changes the limit of a lock, as an operator does.
    async fn set_limit(&mut self, lock: u64, limit: u32) {
        let call = self.begin(Wish::of_nobody(lock), Deed::SetLimit(limit));
        let wanted = Limit::new(limit.into()).expect("within the limits");
        let answer =
            self.ask(&call, CALL_PATIENCE, move |replica| async move {
                replica.set_limit(name(lock), wanted).await
            })
            .await;
        let came = came_of(answer, |()| Came::LimitSet);
        if came == Came::LimitSet {
            self.limits.insert(lock, limit);
        }
        self.complete(&call, &came);
    }

    /// Whoever named another limit than the one in force names that one from now on.
    pub(super) fn learn(&mut self, lock: u64, came: &Came) {
        if let Came::Refused(Rejection::LimitConflict { limit: Some(limit) }) = came {
            self.limits.insert(lock, *limit);
        }
    }

    /// What a holder does until it releases, vanishes or lets its lease run out. Once it is late it releases.
    async fn hold(&self, wish: Wish, until: Nanos) {
        if one_in(25) && now() < until {
            return pause_ms(1_000 + below(4_000)).await; // Nobody hears of it for a while.
        }
        let mut holds = true;
        for _ in 0..below(4) {
            if now() >= until {
                break;
            }
            pause_while_holding(wish.ttl_ms).await;
            if holds && one_in(2) {
                holds = self.renew(wish).await;
            }
        }
        if now() >= until || !one_in(4) {
            self.release(wish).await;
        }
    }

    /// Sends an old request once more, as a middlebox or a forgotten process may do.
    async fn replay(&self) {
        let Some(at) = (!self.old.is_empty()).then(|| below(self.old.len() as u64)) else { return };
        let wish = self.old[usize::try_from(at).expect("few")];
        match below(3) {
            0 => drop(self.acquire_once(Wish { wait_ms: 0, ..wish }, None).await),
            1 => drop(self.renew(wish).await),
            _ => drop(self.release_once(wish).await),
        }
    }
}

/// When a client hangs up, if it does.
pub(super) fn hangs_up(wait_ms: u64) -> Option<Duration> {
    let hangs_up = (wait_ms > 0 && one_in(8)).then(|| Duration::from_millis(below(wait_ms)));
    if hangs_up.is_some() {
        saw("a client hung up while it waited");
    }
    hangs_up
}

/// Some come back before word of their hanging up is there.
pub(super) async fn pause_before_asking_again() {
    pause_ms(if one_in(2) { below(10) } else { 10 + below(200) }).await;
}

/// Some renew when it is just too late, or just in time.
pub(super) async fn pause_while_holding(ttl_ms: u64) {
    let pause = if one_in(8) { ttl_ms } else { below(ttl_ms / 2) };
    pause_ms(pause.min(3_000)).await;
}
