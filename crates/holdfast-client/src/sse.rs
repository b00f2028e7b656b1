//! Server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>), as far as the service uses them.

/// Longest message, in bytes: an event with the longest name, owner and metadata fits in many times over.
const MESSAGE_LEN_MAX: usize = 1024 * 1024;

/// What stands between two empty lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// `event`; none where there is no data.
    pub(crate) kind: Option<String>,
    pub(crate) data: String,
    /// `id`, where it is a number.
    pub(crate) id: Option<u64>,
}

/// Messages out of the pieces of a stream, cut anywhere.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    buffer: Vec<u8>,
}

impl Messages {
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() > MESSAGE_LEN_MAX && find_end(&self.buffer).is_none() {
            self.buffer.clear(); // No message of this service is so long: nothing can be made of it.
        }
    }

    /// The next message that is there as a whole.
    pub(crate) fn next(&mut self) -> Option<Message> {
        let end = find_end(&self.buffer)?;
        let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
        let mut message = Message::default();
        for line in String::from_utf8_lossy(&block).lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => message.kind = Some(value.to_owned()),
                "data" => message.data.push_str(value),
                "id" => message.id = value.parse().ok(),
                _ => {} // A comment has no name, and other fields mean nothing to us.
            }
        }
        Some(message)
    }
}

/// Where an empty line begins.
fn find_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(2).position(|two| two == b"\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_the_stream_is_cut() {
        let stream = "id: 4\n\n:\n\nevent: acquired\nid: 5\ndata: {\"a\":1}\n\nevent: rel";
        let expected = [
            Message { id: Some(4), ..Message::default() },
            Message::default(),
            Message { kind: Some("acquired".into()), data: "{\"a\":1}".into(), id: Some(5) },
        ];
        for cut in 0..stream.len() {
            let mut messages = Messages::default();
            messages.push(&stream.as_bytes()[..cut]);
            let mut found: Vec<_> = std::iter::from_fn(|| messages.next()).collect();
            messages.push(&stream.as_bytes()[cut..]);
            found.extend(std::iter::from_fn(|| messages.next()));
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
}
