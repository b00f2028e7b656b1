//! Once the faults are over, everybody who waits is served within the stated time, also for a lock that is new.

use super::Violation;
use crate::sim::executor::MS;
use crate::sim::run::{HEALING, Probe};

const NAME: &str = "the cluster heals";

pub(crate) fn check(probes: &[Probe]) -> Vec<Violation> {
    let unserved = probes.iter().filter(|probe| probe.granted.is_none_or(|at| at > probe.asked + HEALING));
    unserved
        .map(|probe| {
            let (lock, within) = (probe.lock, HEALING / MS);
            Violation::new(NAME, format!("lock-{lock} was not granted within {within} ms after the faults"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_gets_is_found() {
        let served = Probe { lock: 0, asked: 5, granted: Some(5 + HEALING) };
        let late = Probe { lock: 1, asked: 5, granted: Some(6 + HEALING) };
        let never = Probe { lock: 2, asked: 5, granted: None };
        assert_eq!(check(std::slice::from_ref(&served)), []);
        assert_eq!(check(&[served, late, never]).len(), 2);
    }
}
