//! Pauses between repeated requests.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
pub(crate) const LONGEST: Duration = Duration::from_millis(500);

/// Growing pauses with jitter, so that clients that failed together do not come back together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// From 20 ms up to `longest`.
    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { next: FIRST.min(longest), longest }
    }

    /// The next pause: between half of the nominal one and all of it.
    pub(crate) fn pause(&mut self) -> Duration {
        let nominal = self.next;
        self.next = (nominal * 2).min(self.longest);
        nominal.mul_f64(rand::random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_twenty_milliseconds_to_the_longest() {
        let mut backoff = Backoff::up_to(LONGEST);
        let first = backoff.pause();
        assert!((Duration::from_millis(10)..=Duration::from_millis(20)).contains(&first));
        let later = (0..10).map(|_| backoff.pause()).last().unwrap();
        assert!((LONGEST / 2..=LONGEST).contains(&later));
    }
}
