//! The files of the log: their names and how they begin.
//!
//! A segment is named after its first sequence number and begins with 48 bytes, little-endian:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | `HFLOG`, CR, LF, 26: a transfer as text or a cut is noticed |
//! | 8 | 4 | format version |
//! | 12 | 4 | 0 |
//! | 16 | 8 | sequence number of the first record |
//! | 24 | 16 | storage id |
//! | 40 | 4 | 0 |
//! | 44 | 4 | CRC32C of the other 44 bytes |
//!
//! The first record behind it is a state record.

use bytes::{Buf, BufMut, BytesMut};

use crate::identity::StorageId;

/// Length of what a segment begins with.
pub(super) const SEGMENT_HEADER_LEN: usize = 48;
/// What this program writes, and the only version it reads.
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"HFLOG\r\n\x1a";
const CRC_AT: usize = 44;

/// One file of the log.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Sequence number of its first record; also its name.
    pub(super) first_seq: u64,
    /// Bytes in it, including those that are still on their way to the disk.
    pub(super) len: u64,
    /// Bytes in the segments before it, counted since the log was opened.
    pub(super) bytes_before: u64,
}

impl Segment {
    pub(super) fn file(&self) -> String {
        file_name(self.first_seq)
    }
}

/// What the header of a file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    Sound { first_seq: u64, storage_id: StorageId },
    OtherVersion(u32),
    Broken,
}

pub(super) fn file_name(first_seq: u64) -> String {
    format!("log-{first_seq:020}.hf")
}

/// `None` if the file has nothing to do with the log, `Some(None)` if it only looks like it.
pub(super) fn parse_file_name(file: &str) -> Option<Option<u64>> {
    let number = file.strip_prefix("log-")?.strip_suffix(".hf")?;
    Some(number.parse().ok().filter(|seq| file_name(*seq) == file))
}

pub(super) fn write_header(out: &mut BytesMut, first_seq: u64, storage_id: StorageId) {
    let start = out.len();
    out.put_slice(&MAGIC);
    out.put_u32_le(VERSION);
    out.put_u32_le(0);
    out.put_u64_le(first_seq);
    out.put_u128_le(storage_id);
    out.put_u32_le(0);
    let crc = crc32c::crc32c(&out[start..]);
    out.put_u32_le(crc);
}

pub(super) fn read_header(data: &[u8]) -> Header {
    let Some(mut header) = data.get(..SEGMENT_HEADER_LEN) else { return Header::Broken };
    let crc = (&header[CRC_AT..]).get_u32_le();
    if header[..MAGIC.len()] != MAGIC || crc32c::crc32c(&header[..CRC_AT]) != crc {
        return Header::Broken;
    }
    header.advance(MAGIC.len());
    match header.get_u32_le() {
        VERSION => {
            header.advance(4);
            Header::Sound { first_seq: header.get_u64_le(), storage_id: header.get_u128_le() }
        }
        other => Header::OtherVersion(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_their_numbers_do_and_read_back() {
        let names: Vec<_> = [1, 9, 10, u64::MAX].map(file_name).into();
        assert!(names.is_sorted());
        assert_eq!(parse_file_name(&names[2]), Some(Some(10)));
        assert_eq!(parse_file_name("log-10.hf"), Some(None));
        assert_eq!(parse_file_name("snap-10.hf"), None);
    }

    #[test]
    fn a_header_reads_back_and_any_flipped_bit_breaks_it() {
        let mut header = BytesMut::new();
        write_header(&mut header, 17, 99);
        assert_eq!(header.len(), SEGMENT_HEADER_LEN);
        assert_eq!(read_header(&header), Header::Sound { first_seq: 17, storage_id: 99 });
        for bit in 0..SEGMENT_HEADER_LEN * 8 {
            let mut bad = header.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_header(&bad), Header::Broken, "bit {bit}");
        }
        header[8] = 2;
        let crc = crc32c::crc32c(&header[..CRC_AT]);
        header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(read_header(&header), Header::OtherVersion(2));
    }
}
