//! Counting how often a number lies within which bounds. Counting is a few additions: no lock, no allocation.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers in thousandths: milliseconds of seconds, or permille of a whole.
#[derive(Debug)]
pub struct Histogram<const N: usize> {
    /// Upper bounds, in thousandths, each higher than the one before it.
    bounds: &'static [u64; N],
    within: [AtomicU64; N],
    above: AtomicU64,
    sum: AtomicU64,
}

/// A histogram at one moment, in wholes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Upper bounds, the last one infinite, and how many numbers lie between each and the one before it.
    pub buckets: Vec<(f64, u64)>,
    /// Of all the numbers.
    pub sum: f64,
}

impl<const N: usize> Histogram<N> {
    /// Without any number yet. The bounds are in thousandths and rise.
    pub fn new(bounds: &'static [u64; N]) -> Self {
        let within = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, within, above: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }

    /// Counts a number.
    pub fn count(&self, thousandths: u64) {
        let at = self.bounds.iter().position(|bound| thousandths <= *bound);
        at.map_or(&self.above, |at| &self.within[at]).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(thousandths, Ordering::Relaxed);
    }

    /// As it is now.
    pub fn read(&self) -> Distribution {
        let whole = |thousandths: u64| thousandths as f64 / 1_000.0;
        let bounds = self.bounds.iter().map(|bound| whole(*bound)).chain([f64::INFINITY]);
        let counts = self.within.iter().chain([&self.above]).map(|count| count.load(Ordering::Relaxed));
        Distribution { buckets: bounds.zip(counts).collect(), sum: whole(self.sum.load(Ordering::Relaxed)) }
    }
}

impl Distribution {
    /// How many numbers were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_below_the_first_bound_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[100, 2_000]);
        for thousandths in [0, 100, 101, 2_000, 2_001] {
            histogram.count(thousandths);
        }
        let read = histogram.read();
        assert_eq!(read.buckets, [(0.1, 2), (2.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((read.sum, read.count()), (4.202, 5));
    }
}
