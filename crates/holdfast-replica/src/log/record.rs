//! The frame around everything the log writes: magic, kind, length, sequence number and checksum.
//!
//! Little-endian. 24 bytes of header, then the body:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 2 | `HR` |
//! | 2 | 1 | kind, see [`super::body::Record`] |
//! | 3 | 1 | 0 |
//! | 4 | 4 | length of the body |
//! | 8 | 4 | how many records before this one were not known to be durable when it was written |
//! | 12 | 8 | sequence number: 1, 2, 3, … over all segments |
//! | 20 | 4 | CRC32C of the other 20 bytes and the body, begun with the storage id |
//!
//! Since the checksum begins with the folder's random id, neither another folder's records nor bytes that a client
//! has put into a payload can pass for records of this log.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::identity::StorageId;

/// Length of the header.
pub(super) const HEADER_LEN: usize = 24;
/// Longer bodies are neither written nor believed.
pub(super) const BODY_LEN_MAX: usize = 64 << 20;

const MAGIC: [u8; 2] = *b"HR";
const CRC_AT: usize = 20;

/// Seals the records of one folder with its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal(u32);

/// One record whose checksum was right.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) seq: u64,
    /// The last record that was known to be durable when this one was written.
    pub(super) durable_seq: u64,
    pub(super) body: Bytes,
}

impl Frame {
    /// Length of the whole record.
    pub(super) fn len(&self) -> usize {
        HEADER_LEN + self.body.len()
    }
}

impl Seal {
    pub(super) fn new(storage_id: StorageId) -> Self {
        Self(crc32c::crc32c(&storage_id.to_le_bytes()))
    }

    /// Appends one record to `out`. `body` writes the body.
    pub(super) fn write(
        self,
        out: &mut BytesMut,
        kind: u8,
        seq: u64,
        durable_seq: u64,
        body: impl FnOnce(&mut BytesMut),
    ) {
        let start = out.len();
        out.put_bytes(0, HEADER_LEN);
        body(out);
        let body_len = out.len() - start - HEADER_LEN;
        let unsynced = u32::try_from(seq - 1 - durable_seq).unwrap_or(u32::MAX);
        let mut header = &mut out[start..start + CRC_AT];
        header.put_slice(&MAGIC);
        header.put_u8(kind);
        header.put_u8(0);
        header.put_u32_le(u32::try_from(body_len).expect("the caller keeps to BODY_LEN_MAX"));
        header.put_u32_le(unsynced);
        header.put_u64_le(seq);
        let crc = self.crc(&out[start..]);
        out[start + CRC_AT..start + HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    }

    /// The record at the beginning of `data`, or why there is none.
    pub(super) fn read(self, data: &Bytes) -> Result<Frame, &'static str> {
        let Some(mut header) = data.get(..HEADER_LEN) else {
            return Err("it ends inside the header of a record");
        };
        if header[..MAGIC.len()] != MAGIC || header[3] != 0 {
            return Err("no record begins here");
        }
        header.advance(MAGIC.len());
        let kind = header.get_u8();
        header.advance(1);
        let body_len = header.get_u32_le() as usize;
        let unsynced = u64::from(header.get_u32_le());
        let seq = header.get_u64_le();
        let crc = header.get_u32_le();
        if body_len > BODY_LEN_MAX {
            return Err("the length of the record is impossible");
        }
        let Some(record) = data.get(..HEADER_LEN + body_len) else { return Err("it ends inside a record") };
        if self.crc(record) != crc {
            return Err("the checksum of the record is wrong");
        }
        let durable_seq = seq.saturating_sub(1).saturating_sub(unsynced);
        Ok(Frame { kind, seq, durable_seq, body: data.slice(HEADER_LEN..HEADER_LEN + body_len) })
    }

    /// The first record in `data` from `from` on that looks sound, wherever it begins, and where that is.
    pub(super) fn search(self, data: &Bytes, from: usize) -> Option<(usize, Frame)> {
        let begins = |at: &usize| data[*at..].starts_with(&MAGIC);
        let sound = |at: usize| Some((at, self.read(&data.slice(at..)).ok()?));
        (from..data.len()).filter(begins).find_map(sound)
    }

    fn crc(self, record: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &record[..CRC_AT]), &record[HEADER_LEN..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(seal: Seal, body: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        seal.write(&mut out, 3, 10, 7, |out| out.put_slice(body));
        out.freeze()
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let seal = Seal::new(7);
        let frame = seal.read(&written(seal, b"abc")).unwrap();
        assert_eq!((frame.kind, frame.seq, frame.durable_seq, &frame.body[..]), (3, 10, 7, &b"abc"[..]));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let seal = Seal::new(7);
        let good = written(seal, b"abc");
        for bit in 0..good.len() * 8 {
            let mut bad = BytesMut::from(&good[..]);
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(seal.read(&bad.freeze()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_of_another_folder_is_none_of_ours() {
        assert!(Seal::new(8).read(&written(Seal::new(7), b"abc")).is_err());
    }

    #[test]
    fn a_search_finds_a_record_behind_rubbish() {
        let seal = Seal::new(7);
        let mut data = BytesMut::from(&b"HR rubbish HR"[..]);
        let at = data.len();
        data.put_slice(&written(seal, b"abc"));
        assert_eq!(seal.search(&data.freeze(), 0).map(|(at, frame)| (at, frame.seq)), Some((at, 10)));
    }
}
