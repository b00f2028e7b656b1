//! Clients that keep several locks, and places in queues, with one session.

use std::sync::Mutex;

use holdfast_core::{Rejection, SessionKey, SessionRef, Ttl};

use super::{CALL_PATIENCE, Client, Wish, any_lock, came_of, pause_ms, session_key};
use crate::sim::executor::{Nanos, below, now, one_in};
use crate::sim::holding::Holding;
use crate::sim::lines::{Came, Deed, client_label};

/// A session, as its client knows it.
struct Session {
    id: SessionRef,
    ttl_ms: u64,
    kept: Mutex<Vec<Kept>>,
}

/// What a session was used for.
#[derive(Clone, Copy)]
struct Kept {
    wish: Wish,
    /// As it was told; none once it may have been given back by itself.
    fence: Option<u64>,
}

impl Session {
    fn kept(&self) -> Vec<Kept> {
        self.kept.lock().expect("one thread").clone()
    }

    /// What it certainly holds as long as it lives.
    fn held(&self) -> Vec<(Wish, u64)> {
        self.kept().iter().filter_map(|kept| Some((kept.wish, kept.fence?))).collect()
    }

    fn note(&self, wish: Wish, fence: Option<u64>) {
        let mut kept = self.kept.lock().expect("one thread");
        kept.retain(|kept| kept.wish.attempt != wish.attempt);
        kept.push(Kept { wish, fence });
    }
}

/// What a client does with its session while it waits.
#[derive(Clone, Copy)]
enum Meanwhile {
    Renews,
    /// It ends under the waiter.
    Ends,
    /// It may run out under the waiter.
    Nothing,
}

impl Client {
    pub(super) async fn use_session(&mut self, holdings: &[Holding], until: Nanos) {
        let key = session_key(self.new_attempt());
        let ttl_ms = super::pick(&[400, 1_000, 1_000, 2_500]);
        let Some(session) = self.open_session(key, ttl_ms).await else {
            return pause_ms(10 + below(100)).await;
        };
        for _ in 0..1 + below(4) {
            if now() >= until || !self.acquire_in(&session, holdings).await {
                break;
            }
            if one_in(4) {
                self.give_one_back_of(&session).await;
            }
            if one_in(2) && !self.renew_session(&session).await {
                break;
            }
        }
        if !one_in(3) || now() >= until {
            self.end_session(&session).await;
        } else if one_in(2) {
            pause_ms(ttl_ms + below(1_500)).await; // Nobody hears of it for a while.
        }
    }

    /// Asked again elsewhere with the same token while nobody knows.
    async fn open_session(&self, key: SessionKey, ttl_ms: u64) -> Option<Session> {
        let ttl = Ttl::from_ms(ttl_ms).expect("within the limits");
        let owner = client_label(self.id);
        for _ in 0..3 {
            let call = self.begin_all(&[], &Deed::RenewSession);
            let owner = owner.clone();
            let answer = self
                .ask(&call, CALL_PATIENCE, move |replica| {
                    let owner = owner.clone();
                    async move { replica.open_session(key, owner, ttl).await }
                })
                .await;
            if let Ok(Ok(opened)) = &answer {
                let id = SessionRef { id: opened.id, key };
                return Some(Session { id, ttl_ms, kept: Mutex::default() });
            }
            pause_ms(below(200)).await;
        }
        None
    }

    /// Takes one more lock, or waits for it. False if the session is over.
    async fn acquire_in(&mut self, session: &Session, holdings: &[Holding]) -> bool {
        // Now and then it waits for what the session holds itself.
        let own = session.held().first().map(|(wish, _)| wish.lock).filter(|_| one_in(4));
        let (lock, holding) = match own {
            Some(lock) => (lock, holdings[usize::try_from(lock).expect("few")]),
            None => any_lock(holdings),
        };
        let wish = self.new_wish(lock, holding);
        let wait_ms_min = if own.is_some() { 800 } else { 0 };
        let (ttl_ms, wait_ms) = (session.ttl_ms, wish.wait_ms.clamp(wait_ms_min, 4_000));
        let wish = Wish { session: Some(session.id), ttl_ms, wait_ms, ..wish };
        session.note(wish, None);
        let meanwhile = match below(6) {
            0 => Meanwhile::Ends,
            2 | 3 if own.is_some() => Meanwhile::Ends,
            1 => Meanwhile::Nothing,
            _ => Meanwhile::Renews,
        };
        let came = self.acquire_meanwhile(session, wish, meanwhile).await;
        self.old.push(wish);
        match &came {
            Came::Granted(fence, _) => session.note(wish, Some(*fence)),
            came => self.learn(lock, came),
        }
        let is_over = matches!(meanwhile, Meanwhile::Ends)
            || matches!(came, Came::Refused(Rejection::SessionExpired | Rejection::SessionNotFound));
        if !is_over && matches!(came, Came::Granted(..)) && wish.value.is_some() {
            self.speak_in_session(session, wish).await;
        }
        !is_over
    }

    async fn acquire_meanwhile(&self, session: &Session, wish: Wish, meanwhile: Meanwhile) -> Came {
        let pause = below(wish.wait_ms.max(100));
        match meanwhile {
            Meanwhile::Nothing => self.acquire(wish).await,
            Meanwhile::Ends => {
                let ends = async {
                    pause_ms(pause).await;
                    self.end_session(session).await;
                };
                tokio::join!(self.acquire(wish), ends).0
            }
            Meanwhile::Renews => {
                let renews = async {
                    loop {
                        pause_ms(session.ttl_ms / 3).await;
                        self.renew_session(session).await;
                    }
                };
                tokio::select! {
                    biased;
                    came = self.acquire(wish) => came,
                    () = renews => unreachable!("it goes on until the other is over"),
                }
            }
        }
    }

    /// What a leader does that a session keeps.
    async fn speak_in_session(&self, session: &Session, wish: Wish) {
        if one_in(3) {
            self.proclaim(wish, 200).await;
        }
        if one_in(4) {
            session.note(wish, None);
            self.hand_over_to_somebody(wish).await;
        }
    }

    /// Gives one of its holds back, or renews it, which it needs not.
    async fn give_one_back_of(&self, session: &Session) {
        let Some((wish, _)) = session.held().first().copied() else { return };
        if one_in(3) {
            self.renew(wish).await;
        } else {
            session.note(wish, None);
            self.release(wish).await;
        }
    }

    /// False if it is over.
    async fn renew_session(&self, session: &Session) -> bool {
        let held = session.held();
        let wishes: Vec<_> = held.iter().map(|(wish, _)| *wish).collect();
        let call = self.begin_all(&wishes, &Deed::RenewSession);
        let id = session.id;
        let answer = self
            .ask(&call, CALL_PATIENCE, move |replica| async move { replica.renew_session(id).await })
            .await;
        let mut expires_in_ms = None;
        let came = came_of(answer, |grant| {
            expires_in_ms = Some(grant.expires_in_ms);
            Came::Unknown
        });
        self.complete_each(&call, |line| {
            let fence = held.iter().find(|(wish, _)| wish.attempt == line.attempt).map(|(_, fence)| *fence);
            match (fence, expires_in_ms) {
                (Some(fence), Some(expires_in_ms)) => Came::Granted(fence, expires_in_ms),
                _ => came.clone(),
            }
        });
        !matches!(came, Came::Refused(_))
    }

    async fn end_session(&self, session: &Session) {
        for _ in 0..3 {
            let kept = session.kept();
            let wishes: Vec<_> = kept.iter().map(|kept| kept.wish).collect();
            let call = self.begin_all(&wishes, &Deed::EndSession);
            let id = session.id;
            let answer = self
                .ask(&call, CALL_PATIENCE, move |replica| async move { replica.end_session(id).await })
                .await;
            let came = came_of(answer, |_| Came::Released(None));
            self.complete_each(&call, |line| {
                let of_line = kept.iter().find(|kept| kept.wish.attempt == line.attempt);
                match (of_line.and_then(|kept| kept.fence), &came) {
                    (Some(fence), Came::Released(_)) => Came::Released(Some(fence)),
                    // Whether it held or waited, nobody knows.
                    (None, Came::Released(_) | Came::Refused(_)) => Came::Unknown,
                    (_, came) => came.clone(),
                }
            });
            let is_over = !matches!(came, Came::Unknown | Came::NotDone);
            if is_over && !one_in(10) {
                return; // One in ten says it again.
            }
            pause_ms(below(300)).await;
        }
    }
}
