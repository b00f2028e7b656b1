//! The groups that locks are counted by: prefixes of their names that an operator has chosen, so that numbers never carry
//! the name of a lock.

/// Most prefixes: each costs some sixty time series.
pub const PREFIXES_MAX: usize = 32;
/// Longest prefix, in bytes.
pub const PREFIX_LEN_MAX: usize = 128;
/// The group of all locks that no prefix fits.
pub const OTHER: &str = "other";

/// Prefixes, and the group [`OTHER`] for what none of them fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockGroups {
    /// The longest first, [`OTHER`] last.
    names: Vec<Box<str>>,
}

impl Default for LockGroups {
    fn default() -> Self {
        Self { names: vec![OTHER.into()] }
    }
}

impl LockGroups {
    /// # Errors
    /// What is wrong with the list, for people.
    pub fn new<'a>(prefixes: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut names: Vec<Box<str>> = Vec::new();
        for prefix in prefixes {
            check(prefix)?;
            if names.iter().any(|known| **known == *prefix) {
                return Err(format!("names `{prefix}` twice"));
            }
            names.push(prefix.into());
        }
        if names.len() > PREFIXES_MAX {
            return Err(format!("must be at most {PREFIXES_MAX} prefixes, got {}", names.len()));
        }
        names.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        names.push(OTHER.into());
        Ok(Self { names })
    }

    /// The group of a lock, as its place among [`LockGroups::names`].
    pub fn of(&self, lock: &str) -> usize {
        let other = self.names.len() - 1;
        self.names[..other].iter().position(|prefix| lock.starts_with(&**prefix)).unwrap_or(other)
    }

    /// What the groups are called.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

fn check(prefix: &str) -> Result<(), String> {
    if prefix.is_empty() || prefix.len() > PREFIX_LEN_MAX {
        let len = prefix.len();
        return Err(format!("must be prefixes of 1 to {PREFIX_LEN_MAX} bytes, got one of {len}"));
    }
    if prefix.contains(|c: char| c.is_control() || c == ',') {
        return Err(format!("must be prefixes without control characters and commas, got {prefix:?}"));
    }
    if prefix == OTHER {
        return Err(format!("cannot be `{OTHER}`: that is the group of the locks that no prefix fits"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_belongs_to_the_longest_prefix_that_fits() {
        let groups = LockGroups::new(["jobs/", "jobs/nightly/", "invoices/", "j"]).unwrap();
        let names: Vec<_> = groups.names().collect();
        let group = |lock| names[groups.of(lock)];
        assert_eq!(group("jobs/nightly/backup"), "jobs/nightly/");
        assert_eq!(group("jobs/hourly"), "jobs/");
        assert_eq!(group("jobs/"), "jobs/");
        assert_eq!(group("job"), "j");
        assert_eq!(group("invoices"), OTHER);
        assert_eq!(LockGroups::default().of("jobs/"), 0);
    }

    #[test]
    fn a_list_that_cannot_be_used_is_refused_with_its_limit() {
        let refused = |prefixes: &[&str]| LockGroups::new(prefixes.iter().copied()).unwrap_err();
        let many: Vec<_> = (0..=PREFIXES_MAX).map(|n| format!("{n}/")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(refused(&many).contains("at most 32"), "{}", refused(&many));
        assert!(LockGroups::new(many[1..].iter().copied()).is_ok());
        assert!(refused(&[""]).contains("1 to 128 bytes"));
        assert!(refused(&[&"x".repeat(PREFIX_LEN_MAX + 1)]).contains("1 to 128 bytes"));
        assert!(LockGroups::new([&*"x".repeat(PREFIX_LEN_MAX)]).is_ok());
        assert!(refused(&["a", "b", "a"]).contains("`a` twice"));
        assert!(refused(&["a\n"]).contains("control characters"));
        assert!(refused(&["other"]).contains("no prefix fits"));
    }
}
