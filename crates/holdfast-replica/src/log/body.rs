//! What the records say.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{LogPoint, LogRecord};

/// One record of the log. The numbers of the kinds are on disk and never change their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// 1: an entry, at the index that follows the last one.
    Entry(LogRecord),
    /// 2: the vote from now on.
    Vote(Bytes),
    /// 3: entries behind this one are gone; `None` leaves no entry.
    TruncateAfter(Option<LogPoint>),
    /// 4: entries up to this one are covered by a snapshot and no longer needed.
    Purge(LogPoint),
    /// 5: how far the log was committed, as far as this node knew.
    Committed(Bytes),
    /// 6: the folder was opened; how often so far.
    Boot(u64),
    /// 7: everything that older segments said, at the beginning of each segment.
    State(Box<HardState>),
}

/// What the log remembers besides its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HardState {
    pub(super) boot: u64,
    pub(super) vote: Option<Bytes>,
    pub(super) committed: Option<Bytes>,
    pub(super) purged: Option<LogPoint>,
    /// The last entry, or the purged point if there is none behind it.
    pub(super) last: Option<LogPoint>,
}

impl HardState {
    /// Index of the next entry to be appended.
    pub(super) fn next_index(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.index + 1)
    }

    /// The lowest index that is not purged.
    pub(super) fn first_index(&self) -> u64 {
        self.purged.as_ref().map_or(0, |purged| purged.index + 1)
    }
}

impl Record {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Entry(_) => 1,
            Self::Vote(_) => 2,
            Self::TruncateAfter(_) => 3,
            Self::Purge(_) => 4,
            Self::Committed(_) => 5,
            Self::Boot(_) => 6,
            Self::State(_) => 7,
        }
    }

    /// About how many bytes the body has, to make room for it at once.
    pub(super) fn body_len_hint(&self) -> usize {
        match self {
            Self::Entry(entry) => 12 + entry.id.len() + entry.payload.len(),
            _ => 128,
        }
    }

    pub(super) fn write_body(&self, out: &mut BytesMut) {
        match self {
            Self::Entry(entry) => {
                out.put_u64_le(entry.index);
                put_bytes(out, &entry.id);
                out.put_slice(&entry.payload);
            }
            Self::Vote(bytes) | Self::Committed(bytes) => out.put_slice(bytes),
            Self::TruncateAfter(point) => put_point(out, point.as_ref()),
            Self::Purge(point) => put_point(out, Some(point)),
            Self::Boot(boot) => out.put_u64_le(*boot),
            Self::State(state) => {
                out.put_u64_le(state.boot);
                put_optional_bytes(out, state.vote.as_ref());
                put_optional_bytes(out, state.committed.as_ref());
                put_point(out, state.purged.as_ref());
                put_point(out, state.last.as_ref());
            }
        }
    }

    /// `None` if the kind is unknown or the body is not one of that kind.
    pub(super) fn read(kind: u8, mut body: Bytes) -> Option<Self> {
        let record = match kind {
            1 => {
                let index = body.try_get_u64_le().ok()?;
                let id = get_bytes(&mut body)?;
                Self::Entry(LogRecord { index, id, payload: std::mem::take(&mut body) })
            }
            2 => Self::Vote(std::mem::take(&mut body)),
            3 => Self::TruncateAfter(get_point(&mut body)?),
            4 => Self::Purge(get_point(&mut body)??),
            5 => Self::Committed(std::mem::take(&mut body)),
            6 => Self::Boot(body.try_get_u64_le().ok()?),
            7 => Self::State(Box::new(HardState {
                boot: body.try_get_u64_le().ok()?,
                vote: get_optional_bytes(&mut body)?,
                committed: get_optional_bytes(&mut body)?,
                purged: get_point(&mut body)?,
                last: get_point(&mut body)?,
            })),
            _ => return None,
        };
        body.is_empty().then_some(record)
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &Bytes) {
    out.put_u32_le(u32::try_from(bytes.len()).expect("the caller keeps to BODY_LEN_MAX"));
    out.put_slice(bytes);
}

fn get_bytes(body: &mut Bytes) -> Option<Bytes> {
    let len = body.try_get_u32_le().ok()? as usize;
    (len <= body.len()).then(|| body.split_to(len))
}

fn put_optional_bytes(out: &mut BytesMut, bytes: Option<&Bytes>) {
    out.put_u8(bytes.is_some().into());
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

fn get_optional_bytes(body: &mut Bytes) -> Option<Option<Bytes>> {
    match body.try_get_u8().ok()? {
        0 => Some(None),
        1 => Some(Some(get_bytes(body)?)),
        _ => None,
    }
}

fn put_point(out: &mut BytesMut, point: Option<&LogPoint>) {
    out.put_u8(point.is_some().into());
    if let Some(point) = point {
        out.put_u64_le(point.index);
        put_bytes(out, &point.id);
    }
}

fn get_point(body: &mut Bytes) -> Option<Option<LogPoint>> {
    match body.try_get_u8().ok()? {
        0 => Some(None),
        1 => Some(Some(LogPoint { index: body.try_get_u64_le().ok()?, id: get_bytes(body)? })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record> {
        let point = || LogPoint { index: 9, id: Bytes::from_static(b"term 2") };
        let entry =
            LogRecord { index: 3, id: Bytes::from_static(b"id"), payload: Bytes::from_static(b"load") };
        let state = HardState {
            boot: 4,
            vote: Some(Bytes::from_static(b"vote")),
            committed: None,
            purged: Some(point()),
            last: Some(point()),
        };
        vec![
            Record::Entry(entry),
            Record::Vote(Bytes::from_static(b"me")),
            Record::TruncateAfter(None),
            Record::TruncateAfter(Some(point())),
            Record::Purge(point()),
            Record::Committed(Bytes::new()),
            Record::Boot(7),
            Record::State(Box::new(state)),
            Record::State(Box::default()),
        ]
    }

    #[test]
    fn every_record_reads_back_as_it_was_written() {
        for record in samples() {
            let mut body = BytesMut::new();
            record.write_body(&mut body);
            assert_eq!(Record::read(record.kind(), body.freeze()), Some(record));
        }
    }

    #[test]
    fn a_body_that_is_cut_short_or_too_long_is_refused() {
        for record in samples() {
            let mut body = BytesMut::new();
            record.write_body(&mut body);
            let body = body.freeze();
            for len in 0..body.len() {
                assert_ne!(Record::read(record.kind(), body.slice(..len)), Some(record.clone()));
            }
        }
        assert_eq!(Record::read(6, Bytes::from_static(b"123456789")), None);
        assert_eq!(Record::read(99, Bytes::new()), None);
    }
}
