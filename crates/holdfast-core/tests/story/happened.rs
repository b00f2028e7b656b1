//! What came of it: events, asked by the people they concern.

use holdfast_core::{Cause, Event, Fence, Happening};

use crate::deed::Person;

/// Events, in their order, each with the cluster time of its entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Happened(pub(crate) Vec<(u64, Event)>);

/// A grant, as an event tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantEvent {
    pub(crate) at_ms: u64,
    pub(crate) fence: Fence,
}

impl Happened {
    /// Who was granted which lock, in order.
    pub(crate) fn grants(&self) -> Vec<(&str, &str)> {
        let granted = |event: &Event| matches!(event.what, Happening::Acquired { .. });
        self.0
            .iter()
            .filter(|(_, event)| granted(event))
            .map(|(_, event)| (event.owner.as_str(), event.lock.as_str()))
            .collect()
    }

    /// The only grant to this person.
    pub(crate) fn grant_to(&self, who: Person) -> GrantEvent {
        let mut grants = self.of(who).filter_map(|(at_ms, event)| match event.what {
            Happening::Acquired { fence, .. } => Some(GrantEvent { at_ms: *at_ms, fence }),
            _ => None,
        });
        let grant = grants.next().unwrap_or_else(|| panic!("{} was granted nothing", who.name));
        assert!(grants.next().is_none(), "{} was granted more than one thing", who.name);
        grant
    }

    /// How this person's holds ended, in order: when, which and why.
    pub(crate) fn endings_of(&self, who: Person) -> Vec<(u64, Fence, Cause)> {
        self.of(who)
            .filter_map(|(at_ms, event)| match event.what {
                Happening::Ended { fence, cause, .. } => Some((*at_ms, fence, cause)),
                _ => None,
            })
            .collect()
    }

    /// When and why this person left queues without a grant.
    pub(crate) fn leavings_of(&self, who: Person) -> Vec<(u64, Cause)> {
        self.of(who)
            .filter_map(|(at_ms, event)| match event.what {
                Happening::Left(cause) => Some((*at_ms, cause)),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, who: Person) -> impl Iterator<Item = &(u64, Event)> {
        self.0.iter().filter(move |(_, event)| event.owner.as_str() == who.name)
    }
}
