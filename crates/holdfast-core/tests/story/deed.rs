//! What people do: a command, told in few words.

use std::collections::BTreeMap;

use holdfast_core::{
    Acquire, AcquireOnTerms, AttemptKey, Fence, Home, Limit, LockName, Metadata, NodeId, Op, Owner, Permits,
    SessionId, SessionKey, SessionRef, Share, Terms, Ttl, Wait,
};

/// Somebody who uses locks, through one node unless it is said otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person {
    /// Owner label, and token unless it is said otherwise.
    pub(crate) name: &'static str,
    /// The node that the person's client is connected to.
    pub(crate) node: u64,
}

pub(crate) const ALICE: Person = Person { name: "alice", node: 1 };
pub(crate) const BOB: Person = Person { name: "bob", node: 2 };
pub(crate) const CAROL: Person = Person { name: "carol", node: 3 };
pub(crate) const DAVE: Person = Person { name: "dave", node: 1 };

#[derive(Clone, Debug)]
enum What {
    Acquire { ttl_ms: u64, wait_ms: u64, metadata: Option<String> },
    Renew { ttl_ms: Option<u64> },
    Release { done: bool },
    Abandon { call: Option<Home> },
    Proclaim { json: String },
    HandOver { to: String },
}

/// Something that a person does to a lock.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    lock: String,
    owner: String,
    token: String,
    node: u64,
    share: Share,
    session: Option<SessionRef>,
    /// Delay, least and longest hold, period.
    terms: (u64, u64, Option<u64>, Option<u64>),
    what: What,
}

pub(crate) fn acquire(who: Person, lock: &str) -> Deed {
    let what = What::Acquire { ttl_ms: u64::from(Ttl::DEFAULT_MS), wait_ms: 0, metadata: None };
    Deed::new(who, lock, what)
}

pub(crate) fn renew(who: Person, lock: &str) -> Deed {
    Deed::new(who, lock, What::Renew { ttl_ms: None })
}

pub(crate) fn release(who: Person, lock: &str) -> Deed {
    Deed::new(who, lock, What::Release { done: false })
}

/// The client of the person's last acquire hangs up.
pub(crate) fn abandon(who: Person, lock: &str) -> Deed {
    Deed::new(who, lock, What::Abandon { call: None })
}

/// The holder says something else.
pub(crate) fn proclaim(who: Person, lock: &str, json: &str) -> Deed {
    Deed::new(who, lock, What::Proclaim { json: json.into() })
}

/// The holder hands the lock over to one who waits.
pub(crate) fn hand_over(who: Person, lock: &str, to: &str) -> Deed {
    Deed::new(who, lock, What::HandOver { to: to.into() })
}

impl Deed {
    fn new(who: Person, lock: &str, what: What) -> Self {
        let (owner, token) = (who.name.into(), who.name.into());
        Self {
            lock: lock.into(),
            owner,
            token,
            node: who.node,
            share: Share::Exclusive,
            session: None,
            terms: Default::default(),
            what,
        }
    }

    /// Of an acquire or a renewal.
    pub(crate) fn ttl_ms(mut self, ms: u64) -> Self {
        match &mut self.what {
            What::Acquire { ttl_ms, .. } => *ttl_ms = ms,
            What::Renew { ttl_ms } => *ttl_ms = Some(ms),
            What::Release { .. } | What::Abandon { .. } | What::Proclaim { .. } | What::HandOver { .. } => {
                panic!("only an acquire and a renewal have a TTL")
            }
        }
        self
    }

    pub(crate) fn wait_ms(mut self, ms: u64) -> Self {
        let What::Acquire { wait_ms, .. } = &mut self.what else { panic!("only an acquire waits") };
        *wait_ms = ms;
        self
    }

    pub(crate) fn metadata(mut self, json: &str) -> Self {
        let What::Acquire { metadata, .. } = &mut self.what else { panic!("only an acquire has metadata") };
        *metadata = Some(json.into());
        self
    }

    /// The call whose client hung up, if it is not the last one.
    pub(crate) fn call(mut self, home: Home) -> Self {
        let What::Abandon { call } = &mut self.what else { panic!("only an abandon names a call") };
        *call = Some(home);
        self
    }

    pub(crate) fn delay_ms(mut self, ms: u64) -> Self {
        self.terms.0 = ms;
        self
    }

    pub(crate) fn min_hold_ms(mut self, ms: u64) -> Self {
        self.terms.1 = ms;
        self
    }

    pub(crate) fn max_hold_ms(mut self, ms: u64) -> Self {
        self.terms.2 = Some(ms);
        self
    }

    pub(crate) fn once_ms(mut self, ms: u64) -> Self {
        self.terms.3 = Some(ms);
        self
    }

    /// Of a release: what the lock was taken for is done.
    pub(crate) fn done(mut self) -> Self {
        self.what = What::Release { done: true };
        self
    }

    /// Not all of the lock.
    pub(crate) fn share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    pub(crate) fn shared(self) -> Self {
        self.share(Share::Shared)
    }

    pub(crate) fn permits(self, taken: u64, limit: u64) -> Self {
        self.share(Share::Permits(Permits::new(limit, taken).unwrap()))
    }

    /// Kept by a session, whose token is the person's name unless it is said otherwise.
    pub(crate) fn session(mut self, id: SessionId) -> Self {
        self.session = Some(SessionRef { id, key: session_key(&self.owner) });
        self
    }

    pub(crate) fn session_token(mut self, token: &str) -> Self {
        self.session.as_mut().expect("a session").key = session_key(token);
        self
    }

    pub(crate) fn token(mut self, token: &str) -> Self {
        self.token = token.into();
        self
    }

    pub(crate) fn owner(mut self, owner: &str) -> Self {
        self.owner = owner.into();
        self
    }

    pub(crate) fn through(mut self, node: u64) -> Self {
        self.node = node;
        self
    }

    /// Which attempt it is about.
    pub(crate) fn key(&self) -> AttemptKey {
        key_of(&self.lock, &self.token)
    }

    /// The command, made by the call `home`; `last_homes` tells where each attempt's last call came from.
    pub(crate) fn op(&self, home: Home, last_homes: &BTreeMap<AttemptKey, Home>) -> Op {
        let (lock, key) = (LockName::new(&self.lock).unwrap(), self.key());
        match &self.what {
            What::Acquire { ttl_ms, wait_ms, metadata } => {
                let metadata = metadata.as_deref().map(|json| Metadata::new(json).unwrap());
                let acquire = Acquire {
                    lock,
                    key,
                    owner: Owner::new(&self.owner).unwrap(),
                    ttl: Ttl::from_ms(*ttl_ms).unwrap(),
                    wait: Wait::from_ms(*wait_ms).unwrap(),
                    metadata: metadata.unwrap_or_default(),
                    home,
                };
                let (terms, session, share) =
                    (Terms::try_from(self.terms).unwrap(), self.session, self.share);
                match (session, share) {
                    _ if !terms.is_plain() => {
                        Op::AcquireOnTerms(Box::new(AcquireOnTerms { acquire, share, session, terms }))
                    }
                    (Some(session), share) => Op::AcquireInSession(acquire, share, session),
                    (None, Share::Exclusive) => Op::Acquire(acquire),
                    (None, share) => Op::AcquireShare(acquire, share),
                }
            }
            What::Renew { ttl_ms } => {
                Op::Renew { lock, key, ttl: ttl_ms.map(|ms| Ttl::from_ms(ms).unwrap()) }
            }
            What::Release { done: false } => Op::Release { lock, key },
            What::Release { done: true } => Op::ReleaseDone { lock, key },
            What::Proclaim { json } => Op::Proclaim { lock, key, metadata: Metadata::new(json).unwrap() },
            What::HandOver { to } => Op::HandOver { lock, key, to: Owner::new(to).unwrap() },
            What::Abandon { call } => {
                let home = call.or_else(|| last_homes.get(&key).copied());
                Op::Abandon { lock, key, home: home.expect("only an attempt that was made can be abandoned") }
            }
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node)
    }

    pub(crate) fn is_acquire(&self) -> bool {
        matches!(self.what, What::Acquire { .. })
    }
}

/// The leader takes a grant back that nobody has claimed.
pub(crate) fn unclaim(lock: &str, fence: Fence) -> Op {
    Op::Unclaim { lock: LockName::new(lock).unwrap(), fence }
}

/// A stand-in for the hash over the lock's name and the token.
pub(crate) fn key_of(lock: &str, token: &str) -> AttemptKey {
    AttemptKey(hash(lock, token))
}

fn hash(lock: &str, token: &str) -> [u8; 16] {
    let fnv = |basis: u64| {
        let text = lock.bytes().chain([0]).chain(token.bytes());
        text.fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    let hash = u128::from(fnv(0xcbf2_9ce4_8422_2325)) << 64 | u128::from(fnv(0x6c62_272e_07bb_0142));
    hash.to_be_bytes()
}

/// An operator changes how many permits a lock has.
pub(crate) fn set_limit(lock: &str, limit: u64) -> Op {
    Op::SetLimit { lock: LockName::new(lock).unwrap(), limit: Limit::new(limit).unwrap() }
}

/// A stand-in for the hash over a session's token.
pub(crate) fn session_key(token: &str) -> SessionKey {
    SessionKey(hash("", token))
}

pub(crate) fn open_session(who: Person, ttl_ms: u64) -> Op {
    let (owner, ttl) = (Owner::new(who.name).unwrap(), Ttl::from_ms(ttl_ms).unwrap());
    Op::OpenSession { key: session_key(who.name), owner, ttl }
}

pub(crate) fn renew_session(who: Person, id: SessionId) -> Op {
    Op::RenewSession(SessionRef { id, key: session_key(who.name) })
}

pub(crate) fn end_session(who: Person, id: SessionId) -> Op {
    Op::EndSession(SessionRef { id, key: session_key(who.name) })
}
