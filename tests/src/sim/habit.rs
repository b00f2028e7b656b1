//! What a client of a run is used to.

/// How a client takes the locks that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// One at a time.
    Singly,
    /// Several, kept by one session.
    InSessions,
    /// Several with one call.
    ManyAtOnce,
    /// It holds one and waits for the next.
    OneByOne,
}

impl Habit {
    pub(crate) fn draw(mut below: impl FnMut(u64) -> u64) -> Self {
        match below(9) {
            0 | 1 => Self::InSessions,
            2 | 3 => Self::ManyAtOnce,
            4 | 5 => Self::OneByOne,
            _ => Self::Singly,
        }
    }
}
