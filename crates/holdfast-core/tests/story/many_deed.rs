//! What people do to many locks at once.

use holdfast_core::{
    AcquireMany, AttemptKey, Home, Item, LockName, Op, Owner, Permits, Place, Several, Share, Ttl, Wait,
};

use crate::deed::{Person, key_of};

#[derive(Clone, Debug)]
enum What {
    Acquire { wait_ms: u64, shares: Vec<Share> },
    Renew,
    Release,
}

/// Something that a person does to many locks.
#[derive(Clone, Debug)]
pub(crate) struct ManyDeed {
    who: Person,
    locks: Vec<String>,
    ttl_ms: Option<u64>,
    node: u64,
    what: What,
}

pub(crate) fn acquire_many(who: Person, locks: &[&str]) -> ManyDeed {
    let shares = vec![Share::Exclusive; locks.len()];
    ManyDeed::new(who, What::Acquire { wait_ms: 0, shares }).named(locks)
}

/// Of all that the person's attempt holds, unless some are named.
pub(crate) fn renew_many(who: Person) -> ManyDeed {
    ManyDeed::new(who, What::Renew)
}

/// Of all that the person's attempt holds or waits for, unless some are named.
pub(crate) fn release_many(who: Person) -> ManyDeed {
    ManyDeed::new(who, What::Release)
}

impl ManyDeed {
    fn new(who: Person, what: What) -> Self {
        Self { who, locks: Vec::new(), ttl_ms: None, node: who.node, what }
    }

    pub(crate) fn named(mut self, locks: &[&str]) -> Self {
        self.locks = locks.iter().map(ToString::to_string).collect();
        self
    }

    pub(crate) fn ttl_ms(mut self, ms: u64) -> Self {
        self.ttl_ms = Some(ms);
        self
    }

    pub(crate) fn wait_ms(mut self, ms: u64) -> Self {
        let What::Acquire { wait_ms, .. } = &mut self.what else { panic!("only an acquire waits") };
        *wait_ms = ms;
        self
    }

    /// All of them beside others.
    pub(crate) fn shared(mut self) -> Self {
        let What::Acquire { shares, .. } = &mut self.what else { panic!("only an acquire has shares") };
        shares.fill(Share::Shared);
        self
    }

    pub(crate) fn permits_of(mut self, lock: &str, taken: u64, limit: u64) -> Self {
        let at = self.locks.iter().position(|known| known == lock).expect("one of the locks");
        let What::Acquire { shares, .. } = &mut self.what else { panic!("only an acquire has shares") };
        shares[at] = Share::Permits(Permits::new(limit, taken).unwrap());
        self
    }

    pub(crate) fn through(mut self, node: u64) -> Self {
        self.node = node;
        self
    }

    pub(crate) fn node(&self) -> u64 {
        self.node
    }

    /// The keys of the attempt at its locks.
    pub(crate) fn keys(&self) -> Vec<AttemptKey> {
        self.places().into_iter().map(|place| place.key).collect()
    }

    pub(crate) fn is_acquire(&self) -> bool {
        matches!(self.what, What::Acquire { .. })
    }

    fn places(&self) -> Vec<Place> {
        let place =
            |lock: &String| Place { lock: LockName::new(lock).unwrap(), key: key_of(lock, self.who.name) };
        self.locks.iter().map(place).collect()
    }

    /// The command, made by the call `home`.
    pub(crate) fn op(&self, home: Home) -> Op {
        // No lock has such a name.
        let key = key_of("\n", self.who.name);
        let ttl = self.ttl_ms.map(|ms| Ttl::from_ms(ms).unwrap());
        let named = (!self.locks.is_empty()).then(|| Several::new(self.places()).unwrap());
        match &self.what {
            What::Acquire { wait_ms, shares } => {
                let items = self.places().into_iter().zip(shares);
                let items = items.map(|(place, share)| Item { place, share: *share }).collect();
                Op::AcquireMany(AcquireMany {
                    key,
                    items: Several::new(items).unwrap(),
                    owner: Owner::new(self.who.name).unwrap(),
                    ttl: ttl.unwrap_or_default(),
                    wait: Wait::from_ms(*wait_ms).unwrap(),
                    home,
                })
            }
            What::Renew => Op::RenewMany { key, named, ttl },
            What::Release => Op::ReleaseMany { key, named },
        }
    }
}
