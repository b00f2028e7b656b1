//! Query parameters, read as strictly as bodies.

use holdfast_api::{InvalidArgument, LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX, parse_session_id};
use holdfast_core::{LockName, SessionId, Wait};
use holdfast_replica::handle::Consistency;

use super::percent::decode_query;

/// Parameters of a call: some values, at most one of each name.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    known: &'static [&'static str],
    pairs: Vec<(&'static str, std::borrow::Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads the part of a target behind the question mark.
    ///
    /// # Errors
    /// A parameter that is not among the known ones, is there twice, or cannot be decoded.
    pub(crate) fn parse(
        raw: Option<&'a str>,
        known: &'static [&'static str],
    ) -> Result<Self, InvalidArgument> {
        let mut query = Self { known, pairs: Vec::new() };
        for part in raw.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            query.push(part)?;
        }
        Ok(query)
    }

    fn push(&mut self, part: &'a str) -> Result<(), InvalidArgument> {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let decoded = decode_query(name).map_err(|error| InvalidArgument::new("query", error))?;
        let Some(name) = self.known.iter().copied().find(|known| *known == decoded) else {
            return Err(self.unknown(&decoded));
        };
        if self.get(name).is_some() {
            return Err(InvalidArgument::new(name, "is there twice"));
        }
        let value = decode_query(value).map_err(|error| InvalidArgument::new(name, error))?;
        self.pairs.push((name, value));
        Ok(())
    }

    fn unknown(&self, name: &str) -> InvalidArgument {
        let shown: String = name.chars().take(64).collect();
        if self.known.is_empty() {
            return InvalidArgument::new(shown, "is not a query parameter of this call, which takes none");
        }
        let known = self.known.join(", ");
        InvalidArgument::new(
            shown,
            format_args!("is not a query parameter of this call, which takes {known}"),
        )
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_ref())
    }

    /// `consistency`: linearizable if it is left out.
    pub(crate) fn consistency(&self) -> Result<Consistency, InvalidArgument> {
        match self.get("consistency") {
            None | Some("linearizable") => Ok(Consistency::Linearizable),
            Some("stale") => Ok(Consistency::Stale),
            Some(_) => Err(InvalidArgument::new("consistency", "must be `linearizable` or `stale`")),
        }
    }

    /// `limit`, in locks or sessions.
    pub(crate) fn limit(&self) -> Result<usize, InvalidArgument> {
        let Some(text) = self.get("limit") else { return Ok(LIST_LIMIT_DEFAULT) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(limit) if digits && (1..=LIST_LIMIT_MAX).contains(&limit) => Ok(limit),
            _ => {
                let rule = format_args!("must be a whole number between 1 and {LIST_LIMIT_MAX}");
                Err(InvalidArgument::new("limit", rule))
            }
        }
    }

    /// A parameter that is the id of a session; nothing if it is empty.
    pub(crate) fn session(&self, name: &'static str) -> Result<Option<SessionId>, InvalidArgument> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let id = parse_session_id(text);
        id.map(Some)
            .ok_or_else(|| InvalidArgument::new(name, "must be the id of a session, as lists show it"))
    }

    /// A parameter that is a number of the event counter, or a fence; nothing if it is left out.
    pub(crate) fn seq(&self, name: &'static str) -> Result<Option<u64>, InvalidArgument> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let seq = text.parse().ok().filter(|_| digits);
        seq.map(Some).ok_or_else(|| InvalidArgument::new(name, "must be a whole number"))
    }

    /// `wait_ms`; none if it is left out.
    pub(crate) fn wait(&self) -> Result<Option<Wait>, InvalidArgument> {
        let Some(ms) = self.seq("wait_ms")? else { return Ok(None) };
        Wait::from_ms(ms).map(Some).map_err(|error| InvalidArgument::new("wait_ms", error))
    }

    /// A parameter that is true or false; false if it is left out.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, InvalidArgument> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(InvalidArgument::new(name, "must be `true` or `false`")),
        }
    }

    /// A parameter that is a name, or the beginning of one; nothing if it is empty.
    pub(crate) fn name(&self, name: &'static str) -> Result<Option<&str>, InvalidArgument> {
        let Some(text) = self.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        LockName::new(text).map_err(|error| InvalidArgument::new(name, error))?;
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["prefix", "limit", "after", "consistency"];

    fn query(raw: &str) -> Query<'_> {
        Query::parse(Some(raw), KNOWN).unwrap()
    }

    #[test]
    fn parameters_are_decoded_once() {
        assert_eq!(query("prefix=a%252Fb+c").name("prefix").unwrap(), Some("a%2Fb c"));
        assert_eq!(query("prefix=").name("prefix").unwrap(), None);
        assert_eq!(query("").name("prefix").unwrap(), None);
    }

    #[test]
    fn unknown_repeated_and_undecodable_parameters_are_refused_by_name() {
        for (raw, field) in [("page=2", "page"), ("limit=1&limit=1", "limit"), ("after=%ff", "after")] {
            assert_eq!(Query::parse(Some(raw), KNOWN).unwrap_err().field, field, "{raw}");
        }
        assert_eq!(Query::parse(Some("x"), &[]).unwrap_err().field, "x");
    }

    #[test]
    fn a_limit_is_1_to_1000() {
        assert_eq!(query("").limit(), Ok(100));
        assert_eq!(query("limit=1").limit(), Ok(1));
        assert_eq!(query("limit=1000").limit(), Ok(1000));
        for raw in ["limit=0", "limit=1001", "limit=-1", "limit=%2B5", "limit=", "limit=x", "limit=1e2"] {
            assert!(query(raw).limit().unwrap_err().to_string().contains("between 1 and 1000"), "{raw}");
        }
    }

    #[test]
    fn consistency_is_one_of_two_words() {
        assert_eq!(query("consistency=stale").consistency(), Ok(Consistency::Stale));
        assert_eq!(query("").consistency(), Ok(Consistency::Linearizable));
        assert!(query("consistency=Stale").consistency().is_err());
    }
}
