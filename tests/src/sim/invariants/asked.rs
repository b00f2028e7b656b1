//! What attempts at single locks are asked for, whatever the way of asking: read off the journal.

use std::collections::BTreeMap;

use holdfast_core::{AttemptKey, Home, LockName, Op, Owner, Place, SessionId, Several, Share, Terms};

use crate::sim::journal::Journal;

/// One attempt at one lock, as an operation asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) lock: &'a LockName,
    pub(crate) key: AttemptKey,
    pub(crate) share: Share,
    pub(crate) owner: &'a Owner,
    pub(crate) home: Home,
    pub(crate) wait_ms: u64,
}

/// The attempts that an operation makes or repeats.
pub(crate) fn wanted(op: &Op) -> impl Iterator<Item = Wanted<'_>> {
    let (single, many) = match op {
        Op::Acquire(acquire) => (Some((acquire, Share::Exclusive)), None),
        Op::AcquireShare(acquire, share) | Op::AcquireInSession(acquire, share, _) => {
            (Some((acquire, *share)), None)
        }
        Op::AcquireOnTerms(on) => (Some((&on.acquire, on.share)), None),
        Op::AcquireMany(many) => (None, Some(many)),
        _ => (None, None),
    };
    let single = single.map(|(acquire, share)| Wanted {
        lock: &acquire.lock,
        key: acquire.key,
        share,
        owner: &acquire.owner,
        home: acquire.home,
        wait_ms: acquire.wait.ms(),
    });
    let of_many = many.into_iter().flat_map(|many| {
        many.items.iter().map(|item| Wanted {
            lock: &item.place.lock,
            key: item.place.key,
            share: item.share,
            owner: &many.owner,
            home: many.home,
            wait_ms: many.wait.ms(),
        })
    });
    single.into_iter().chain(of_many)
}

/// What belongs together in a whole journal: an attempt's key never changes what it is.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    sessions: BTreeMap<AttemptKey, SessionId>,
    terms: BTreeMap<AttemptKey, Terms>,
    /// The places of attempts at many.
    parts: BTreeMap<AttemptKey, Vec<&'a Place>>,
    whole: BTreeMap<AttemptKey, AttemptKey>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(journal: &'a Journal) -> Self {
        let mut asked = Self::default();
        for op in journal.entries.values().flat_map(|entry| &entry.ops) {
            match op {
                Op::AcquireInSession(acquire, _, session) => {
                    asked.sessions.insert(acquire.key, session.id);
                }
                Op::AcquireOnTerms(on) => {
                    asked.terms.insert(on.acquire.key, on.terms);
                    asked.sessions.extend(on.session.map(|session| (on.acquire.key, session.id)));
                }
                Op::AcquireMany(many) if !asked.parts.contains_key(&many.key) => {
                    let places: Vec<_> = many.items.iter().map(|item| &item.place).collect();
                    asked.whole.extend(places.iter().map(|place| (place.key, many.key)));
                    asked.parts.insert(many.key, places);
                }
                _ => {}
            }
        }
        asked
    }

    /// The session that is to keep an attempt.
    pub(crate) fn session_of(&self, key: &AttemptKey) -> Option<SessionId> {
        self.sessions.get(key).copied()
    }

    /// What an attempt has agreed on beside its TTL.
    pub(crate) fn terms_of(&self, key: &AttemptKey) -> Terms {
        self.terms.get(key).copied().unwrap_or_default()
    }

    /// The attempts that a session is to keep.
    pub(crate) fn kept_by(&self, session: SessionId) -> Vec<AttemptKey> {
        self.sessions.iter().filter(|(_, id)| **id == session).map(|(key, _)| *key).collect()
    }

    /// The attempt at many that one at a single lock is part of.
    pub(crate) fn whole_of(&self, part: &AttemptKey) -> Option<AttemptKey> {
        self.whole.get(part).copied()
    }

    /// The attempts at single locks that an attempt at many is made of.
    pub(crate) fn places(&self, whole: &AttemptKey) -> &[&'a Place] {
        self.parts.get(whole).map_or(&[], Vec::as_slice)
    }

    /// All attempts at many.
    pub(crate) fn wholes(&self) -> impl Iterator<Item = (&AttemptKey, &[&'a Place])> {
        self.parts.iter().map(|(key, places)| (key, places.as_slice()))
    }

    /// Those that are named, else all.
    pub(crate) fn parts(&self, whole: &AttemptKey, named: Option<&Several<Place>>) -> Vec<AttemptKey> {
        match named {
            Some(named) => named.iter().map(|place| place.key).collect(),
            None => self.places(whole).iter().map(|place| place.key).collect(),
        }
    }

    /// The one of an attempt's places that stands for it where one is needed: its first, or itself.
    pub(crate) fn spokesman_of(&self, key: &AttemptKey) -> AttemptKey {
        self.whole_of(key).and_then(|whole| self.places(&whole).first()).map_or(*key, |place| place.key)
    }
}
