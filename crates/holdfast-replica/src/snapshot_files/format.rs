//! The layout of a snapshot file. Numbers are little-endian; sizes in bytes.
//!
//! | part | content |
//! | --- | --- |
//! | header | `HFSNAP`, CR, LF (8); format version (4); length of the rest (4); its CRC32C together with the 16 before (4); the rest: index (8), length of the id (4), id, meta |
//! | chunk, any number | length (4), CRC32C of the bytes (4), the bytes |
//! | trailer, 32 | 0xFFFFFFFF (4); `HFEND`, CR, LF, 26 (8); number of chunks (4); bytes in all chunks (8); CRC32C of the CRCs of all chunks (4); CRC32C of the other 28 (4) |

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::log::LogPoint;

/// A chunk has at least one byte and at most so many.
pub const CHUNK_LEN_MAX: usize = 1 << 20;

/// What the names of snapshots begin with.
pub(super) const NAME_PREFIX: &str = "snap-";
/// Length of the header without its rest.
pub(super) const HEADER_LEN: usize = 20;
/// Length of what stands before the bytes of a chunk.
pub(super) const CHUNK_HEADER_LEN: usize = 8;
/// Length of the trailer.
pub(super) const TRAILER_LEN: usize = 32;
/// The rest of the header is not believed to be longer.
pub(super) const HEADER_REST_MAX: usize = 16 << 20;

const MAGIC: [u8; 8] = *b"HFSNAP\r\n";
const VERSION: u32 = 1;
const NO_CHUNK: u32 = u32::MAX;
const END: [u8; 8] = *b"HFEND\r\n\x1a";

/// `snap-<index>-<hash of the id>.hf`
pub(super) fn file_name(point: &LogPoint) -> String {
    format!("{NAME_PREFIX}{:020}-{:08x}.hf", point.index, crc32c::crc32c(&point.id))
}

/// The index in the name, if it is the name of a snapshot.
pub(super) fn index_of_file(file: &str) -> Option<u64> {
    let (index, hash) = file.strip_prefix(NAME_PREFIX)?.strip_suffix(".hf")?.split_once('-')?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && index.len() == 20).then(|| index.parse().ok())?
}

pub(super) fn header(point: &LogPoint, meta: &[u8]) -> Bytes {
    let mut rest = BytesMut::new();
    rest.put_u64_le(point.index);
    rest.put_u32_le(u32::try_from(point.id.len()).expect("ids are short"));
    rest.put_slice(&point.id);
    rest.put_slice(meta);
    let mut out = BytesMut::new();
    out.put_slice(&MAGIC);
    out.put_u32_le(VERSION);
    out.put_u32_le(u32::try_from(rest.len()).expect("the caller keeps to HEADER_REST_MAX"));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out), &rest);
    out.put_u32_le(crc);
    out.unsplit(rest);
    out.freeze()
}

/// Length of the rest of the header, and the checksum so far and to be.
pub(super) fn read_header(mut header: &[u8]) -> Result<(usize, u32, u32), String> {
    if header.len() < HEADER_LEN || header[..MAGIC.len()] != MAGIC {
        return Err("it does not begin as a snapshot".to_owned());
    }
    let crc_so_far = crc32c::crc32c(&header[..16]);
    header.advance(MAGIC.len());
    let version = header.get_u32_le();
    if version != VERSION {
        return Err(format!("it has format {version}, this program reads format {VERSION} only"));
    }
    let rest_len = header.get_u32_le() as usize;
    if rest_len > HEADER_REST_MAX {
        return Err("the length of its header is impossible".to_owned());
    }
    Ok((rest_len, crc_so_far, header.get_u32_le()))
}

/// The point and the meta in the rest of a header.
pub(super) fn read_header_rest(mut rest: Bytes, crc_so_far: u32, crc: u32) -> Option<(LogPoint, Bytes)> {
    if crc32c::crc32c_append(crc_so_far, &rest) != crc {
        return None;
    }
    let index = rest.try_get_u64_le().ok()?;
    let id_len = rest.try_get_u32_le().ok()? as usize;
    let id = (id_len <= rest.len()).then(|| rest.split_to(id_len))?;
    Some((LogPoint { index, id }, rest))
}

pub(super) fn chunk_header(bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(CHUNK_HEADER_LEN);
    out.put_u32_le(u32::try_from(bytes.len()).expect("a chunk is at most 1 MiB"));
    out.put_u32_le(crc32c::crc32c(bytes));
    out.freeze()
}

/// Length and checksum of a chunk, or `None` where the chunks end.
pub(super) fn read_chunk_header(mut header: &[u8]) -> Result<Option<(usize, u32)>, String> {
    match (header.try_get_u32_le(), header.try_get_u32_le()) {
        (Ok(NO_CHUNK), _) => Ok(None),
        (Ok(len), Ok(crc)) if (1..=CHUNK_LEN_MAX).contains(&(len as usize)) => Ok(Some((len as usize, crc))),
        (Ok(_), Ok(_)) => Err("the length of a chunk is impossible".to_owned()),
        _ => Err("it ends before its trailer".to_owned()),
    }
}

/// What the trailer sums up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) chunks: u32,
    pub(super) bytes: u64,
    pub(super) crc_of_crcs: u32,
}

impl Sum {
    pub(super) fn add(&mut self, len: usize, crc: u32) {
        self.chunks += 1;
        self.bytes += len as u64;
        self.crc_of_crcs = crc32c::crc32c_append(self.crc_of_crcs, &crc.to_le_bytes());
    }

    pub(super) fn trailer(self) -> Bytes {
        let mut out = BytesMut::with_capacity(TRAILER_LEN);
        out.put_u32_le(NO_CHUNK);
        out.put_slice(&END);
        out.put_u32_le(self.chunks);
        out.put_u64_le(self.bytes);
        out.put_u32_le(self.crc_of_crcs);
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_its_index_and_other_names_none() {
        let point = LogPoint { index: 42, id: Bytes::from_static(b"3-1-42") };
        let name = file_name(&point);
        assert_eq!(index_of_file(&name), Some(42));
        for other in
            ["snap-42-00000000.hf", "log-00000000000000000042.hf", "snap-.hf", &format!("{name}.part")]
        {
            assert_eq!(index_of_file(other), None, "{other}");
        }
    }
}
