//! Paths of the API.

use std::fmt::Write;

/// The path of a lock, with an action behind it where one is given.
pub(crate) fn lock_path(name: &str, action: Option<&str>) -> String {
    path("locks", name, action)
}

/// The same of an election.
pub(crate) fn election_path(name: &str, action: Option<&str>) -> String {
    path("elections", name, action)
}

fn path(kind: &str, name: &str, action: Option<&str>) -> String {
    let action = action.map(|action| format!("/{action}")).unwrap_or_default();
    format!("/v1/{kind}/{}{action}", segment(name))
}

/// The path of a session, likewise.
pub(crate) fn session_path(id: &str, action: Option<&str>) -> String {
    let action = action.map(|action| format!("/{action}")).unwrap_or_default();
    format!("/v1/sessions/{}{action}", segment(id))
}

/// Text as one segment of a path. `.` and `..` are encoded as well: as they are they would mean another path.
fn segment(text: &str) -> String {
    encode(text, |byte| byte == b'.' && text != "." && text != "..")
}

/// Text as a value in a query.
pub(crate) fn query_value(text: &str) -> String {
    encode(text, |byte| byte == b'.')
}

fn encode(text: &str, is_plain_too: impl Fn(u8) -> bool) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || is_plain_too(byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes everything");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_segment() {
        for (name, path) in [
            ("db", "/v1/locks/db/renew"),
            ("a//b", "/v1/locks/a%2F%2Fb/renew"),
            ("a%2Fb", "/v1/locks/a%252Fb/renew"),
            (".", "/v1/locks/%2E/renew"),
            ("..", "/v1/locks/%2E%2E/renew"),
            ("../x", "/v1/locks/..%2Fx/renew"),
            ("a b+ü?#", "/v1/locks/a%20b%2B%C3%BC%3F%23/renew"),
        ] {
            assert_eq!(lock_path(name, Some("renew")), path);
        }
    }
}
