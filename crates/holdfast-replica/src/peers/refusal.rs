//! Why a node will not talk to another.

use std::fmt;

use super::identity::Hello;

/// Why a connection was turned down. The number is the wire's; it never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RefusalReason {
    /// Not a greeting of this protocol, or a damaged one.
    Garbage = 1,
    /// No common version of the protocol.
    Version = 2,
    /// A lane that this version does not know.
    Lane = 3,
    /// Both belong to a cluster, and not to the same.
    OtherCluster = 4,
    /// The call was meant for another node.
    OtherNode = 5,
    /// A node reached itself.
    Itself = 6,
    /// A known node id with the storage id of another disk: a wiped one, or a number used twice.
    OtherStorage = 7,
    /// The cluster does not have such a node, or no longer.
    NotMember = 8,
    /// A newer connection of the same node and lane is open.
    Stale = 9,
    /// No greeting within the time for it.
    Silent = 10,
    /// The oldest of too many connections that had not greeted yet.
    Crowded = 11,
}

impl RefusalReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Garbage,
        Self::Version,
        Self::Lane,
        Self::OtherCluster,
        Self::OtherNode,
        Self::Itself,
        Self::OtherStorage,
        Self::NotMember,
        Self::Stale,
        Self::Silent,
        Self::Crowded,
    ];

    /// A short name for metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Version => "version",
            Self::Lane => "lane",
            Self::OtherCluster => "other_cluster",
            Self::OtherNode => "other_node",
            Self::Itself => "itself",
            Self::OtherStorage => "other_storage",
            Self::NotMember => "not_member",
            Self::Stale => "stale",
            Self::Silent => "silent",
            Self::Crowded => "crowded",
        }
    }

    /// The reason with this number, if this version knows one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }
}

/// A connection turned down, with a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs and metrics.
    pub reason: RefusalReason,
    /// For people: who, and what does not fit.
    pub text: String,
}

impl Refusal {
    /// A refusal with this text.
    pub fn new(reason: RefusalReason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.text)
    }
}

/// What the cluster knows of its nodes, above all which disk belongs to which id.
///
/// Asked on both ends of each new connection: a wiped disk must neither be heard nor counted on.
pub trait PeerDirectory: Send + Sync + 'static {
    /// Whether to talk to a node that says this of itself. Called often and on the network's tasks: must not block.
    fn check(&self, hello: &Hello) -> Result<(), Refusal>;

    /// Another node would not have this one. Must not block.
    fn turned_away(&self, reason: Option<RefusalReason>) {
        let _ = reason;
    }
}

impl<F> PeerDirectory for F
where
    F: Fn(&Hello) -> Result<(), Refusal> + Send + Sync + 'static,
{
    fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        self(hello)
    }
}
