//! Clients that take several locks with one call: all of them or none.

use std::time::Duration;

use holdfast_core::{AttemptKey, Fence, Item, LockName, ManyGrant, Place as LockPlace, Rejection, Several};
use holdfast_replica::handle::{Acquired, ManyAttempt};

use super::nested::shuffled;
use super::singly::{hangs_up, pause_before_asking_again, pause_while_holding};
use super::{CALL_PATIENCE, Client, Wish, came_of, came_of_acquire, pause_ms};
use crate::sim::executor::{Nanos, below, now, one_in};
use crate::sim::faults::{Moment, Place};
use crate::sim::holding::Holding;
use crate::sim::lines::{Came, Deed, Line, name};

/// So many locks at most are taken at once.
const LOCKS_MAX: u64 = 4;

/// An attempt at several locks.
struct ManyWish {
    key: AttemptKey,
    /// What it asks for at each of them.
    wishes: Vec<Wish>,
}

impl ManyWish {
    fn first(&self) -> &Wish {
        &self.wishes[0]
    }

    fn attempt(&self) -> ManyAttempt {
        let first = self.first();
        // The label is one for all of them.
        let owner = Wish { attempt: self.key, ..*first }.owner();
        let item = |wish: &Wish| Item { place: place(wish), share: wish.share };
        let items = several(self.wishes.iter().map(item).collect());
        ManyAttempt { key: self.key, items, owner, ttl: first.ttl(), wait: first.wait() }
    }

    fn places(wishes: &[Wish]) -> Several<LockPlace> {
        several(wishes.iter().map(place).collect())
    }
}

fn place(wish: &Wish) -> LockPlace {
    LockPlace { lock: wish.name(), key: wish.attempt }
}

fn several<T: holdfast_core::OfLock>(list: Vec<T>) -> Several<T> {
    Several::new(list).expect("a few different locks")
}

impl Client {
    pub(super) async fn use_many(&mut self, holdings: &[Holding], until: Nanos) {
        let wish = self.new_many_wish(holdings);
        let came = self.acquire_many(&wish).await;
        if came.iter().all(|came| matches!(came, Came::Granted(..))) {
            self.hold_many(&wish, until).await;
        } else {
            for (wish, came) in wish.wishes.iter().zip(&came) {
                self.learn_of(wish, came);
            }
            pause_ms(10 + below(100)).await;
        }
    }

    fn new_many_wish(&mut self, holdings: &[Holding]) -> ManyWish {
        let count = usize::try_from(2 + below(LOCKS_MAX - 1)).expect("few").min(holdings.len());
        let locks = shuffled(holdings.len()).into_iter().take(count);
        let wanted: Vec<_> =
            locks.map(|lock| (lock, holdings[usize::try_from(lock).expect("few")])).collect();
        let model = self.new_wish(wanted[0].0, wanted[0].1);
        let part = |(number, (lock, holding)): (u8, &(u64, Holding))| {
            let mut attempt = model.attempt;
            attempt.0[4] = number;
            let share = holding.wish(self.limits.get(lock).copied());
            let labelled = super::Labelled::Itself;
            Wish { lock: *lock, attempt, share, labelled, value: None, ..model }
        };
        ManyWish { key: model.attempt, wishes: (1..).zip(&wanted).map(part).collect() }
    }

    fn learn_of(&mut self, wish: &Wish, came: &Came) {
        if let Came::Refused(Rejection::Of { lock, why }) = came
            && *lock == wish.name()
        {
            self.learn(wish.lock, &Came::Refused((**why).clone()));
        }
    }

    /// One attempt, asked again elsewhere with the same token while nobody knows. What came of it at each lock.
    async fn acquire_many(&self, wish: &ManyWish) -> Vec<Came> {
        let mut came = Vec::new();
        for _ in 0..4 {
            let hangs_up = hangs_up(wish.first().wait_ms);
            came = self.acquire_many_once(wish, hangs_up).await;
            let is_open = matches!(came[0], Came::NotDone | Came::Unknown);
            // One in five gives up for good.
            if !is_open || one_in(5) || (hangs_up.is_some() && one_in(2)) {
                break;
            }
            pause_before_asking_again().await;
        }
        came
    }

    async fn acquire_many_once(&self, wish: &ManyWish, hangs_up: Option<Duration>) -> Vec<Came> {
        let wait_ms = wish.first().wait_ms;
        let call = self.begin_all(&wish.wishes, &Deed::Acquire { wait_ms });
        let wanted = wish.attempt();
        let patience = hangs_up.unwrap_or(Duration::from_millis(wait_ms) + CALL_PATIENCE);
        let (moments, node) = (self.moments.clone(), call.node);
        let answer = self
            .ask(&call, patience, move |replica| {
                let (wanted, moments) = (wanted.clone(), moments.clone());
                async move {
                    let (acquired, delivery) = replica.acquire_many(wanted).await?;
                    delivery.delivered();
                    if matches!(acquired, Acquired::Granted(_)) {
                        moments.reach(Moment::ClientTold, Place::at(node)); // The answer is as good as gone.
                    }
                    Ok(acquired)
                }
            })
            .await;
        let mut granted = None;
        let came = came_of_acquire(answer, |grant| {
            granted = Some(grant);
            Came::Unknown
        });
        self.complete_each(&call, |line| told_of(&granted, &came, line));
        let history = self.history.lock().expect("one thread");
        history[call.lines.clone()].iter().map(|line| line.came.clone()).collect()
    }

    /// What a holder of several does until it releases them all, vanishes or lets its leases run out.
    async fn hold_many(&self, wish: &ManyWish, until: Nanos) {
        if one_in(25) && now() < until {
            return pause_ms(1_000 + below(4_000)).await; // Nobody hears of it for a while.
        }
        let mut held = wish.wishes.clone();
        for _ in 0..below(4) {
            if now() >= until {
                break;
            }
            pause_while_holding(wish.first().ttl_ms).await;
            match below(4) {
                0 | 1 => self.renew_many(wish, &held).await,
                2 if held.len() > 1 => {
                    let at = usize::try_from(below(held.len() as u64)).expect("few");
                    let given_back = held.swap_remove(at);
                    self.give_one_back(wish, given_back).await;
                }
                _ => {}
            }
        }
        if now() >= until || !one_in(4) {
            self.release_many(wish, &held, one_in(3)).await;
        }
    }

    /// By the call for many, or by the one for a single lock.
    async fn give_one_back(&self, wish: &ManyWish, given_back: Wish) {
        match one_in(2) {
            true => self.release_many(wish, &[given_back], true).await,
            false => self.release(given_back).await,
        }
    }

    /// All that it holds, named or not.
    async fn renew_many(&self, wish: &ManyWish, held: &[Wish]) {
        let is_named = one_in(3);
        let call = self.begin_all(if is_named { held } else { &wish.wishes }, &Deed::Renew);
        let (key, named) = (wish.key, is_named.then(|| ManyWish::places(held)));
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| {
                let named = named.clone();
                async move { replica.renew_many(key, named, None).await }
            })
            .await;
        let mut granted = None;
        let came = came_of(answer, |grant| {
            granted = Some(grant);
            Came::Unknown
        });
        self.complete_each(&call, |line| told_of(&granted, &came, line));
    }

    /// `is_named`: whether they are named, or all that there is is meant.
    async fn release_many(&self, wish: &ManyWish, held: &[Wish], is_named: bool) {
        let concerned = if is_named { held } else { &wish.wishes };
        for _ in 0..3 {
            let call = self.begin_all(concerned, &Deed::Release);
            let (key, named) = (wish.key, is_named.then(|| ManyWish::places(held)));
            let answer = self
                .ask(&call, CALL_PATIENCE, move |replica| {
                    let named = named.clone();
                    async move { replica.release_many(key, named).await }
                })
                .await;
            let mut released: Vec<(LockName, Option<Fence>)> = Vec::new();
            let came = came_of(answer, |fences| {
                released = fences;
                Came::Unknown
            });
            let is_over = !matches!(came, Came::Unknown | Came::NotDone) || !released.is_empty();
            self.complete_each(&call, |line| {
                let of_line = released.iter().find(|(lock, _)| *lock == name(line.lock));
                of_line.map_or_else(|| came.clone(), |(_, fence)| Came::Released(fence.map(|fence| fence.0)))
            });
            if is_over && !one_in(10) {
                return; // One in ten says it again.
            }
            pause_ms(below(300)).await;
        }
    }
}

/// What one of the locks was told: its grant, else what was said of all of them.
fn told_of(granted: &Option<ManyGrant>, otherwise: &Came, line: &Line) -> Came {
    let Some(granted) = granted else { return otherwise.clone() };
    let lock = name(line.lock);
    match granted.fences.iter().find(|(other, _)| *other == lock) {
        Some((_, fence)) => Came::Granted(fence.0, granted.expires_in_ms),
        // A grant that leaves out what the attempt holds says that it does not.
        None => Came::Refused(Rejection::Of { lock, why: Box::new(Rejection::NotHolder) }),
    }
}
