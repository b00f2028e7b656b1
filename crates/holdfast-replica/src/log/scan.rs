//! Walking through the records of a segment, and telling a torn tail from damage.

use bytes::Bytes;

use super::record::{Frame, Seal};

/// A disk writes a sector of so many bytes as a whole or not at all.
const SECTOR: usize = 512;
/// Fewer zeros than this in a row, at the beginning of a sector's unwritten rest, are no sign of anything.
const ZEROS_MIN: usize = 8;

/// The records of one segment, one after the other.
pub(super) struct Scan<'a> {
    pub(super) data: &'a Bytes,
    pub(super) seal: Seal,
    /// Offset of the next record.
    pub(super) at: usize,
    /// Sequence number of the next record.
    pub(super) next_seq: u64,
}

impl Scan<'_> {
    /// The next record and its offset; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Result<(usize, Frame), String>> {
        if self.at == self.data.len() {
            return None;
        }
        Some(self.read().map(|frame| {
            let at = self.at;
            self.at += frame.len();
            self.next_seq += 1;
            (at, frame)
        }))
    }

    fn read(&self) -> Result<Frame, String> {
        let frame = self.seal.read(&self.data.slice(self.at..))?;
        if frame.seq != self.next_seq {
            return Err(format!("record {} is where record {} should be", frame.seq, self.next_seq));
        }
        Ok(frame)
    }

    /// Whether what begins at the present place is what a crash leaves of writes that were never acknowledged.
    ///
    /// It is if nothing sound follows. If something does, a write was acknowledged that came later, or bits have
    /// changed: that is damage. But one group of writes reaches the disk in any order, so what follows may have
    /// been written while a sector before it was not. Such a sector reads as zeros, and none of the records behind it
    /// says that what was here is durable.
    pub(super) fn is_torn_here(&self) -> bool {
        let mut followers = Followers { scan: self, at: self.at };
        let Some((first, frame)) = followers.next() else { return true };
        let is_known_durable = |frame: &Frame| frame.durable_seq >= self.next_seq;
        has_unwritten_sector(self.data, self.at, first)
            && !is_known_durable(&frame)
            && !followers.any(|(_, frame)| is_known_durable(&frame))
    }
}

/// Sound records behind a bad place.
struct Followers<'a> {
    scan: &'a Scan<'a>,
    at: usize,
}

impl Iterator for Followers<'_> {
    type Item = (usize, Frame);

    fn next(&mut self) -> Option<(usize, Frame)> {
        loop {
            let (at, frame) = self.scan.seal.search(self.scan.data, self.at)?;
            self.at = at + frame.len();
            if frame.seq >= self.scan.next_seq {
                return Some((at, frame));
            }
        }
    }
}

/// Whether a sector between `from` and `to`, or the rest of the one in which `from` lies, is zero.
fn has_unwritten_sector(data: &[u8], from: usize, to: usize) -> bool {
    let mut at = from;
    while at < to {
        let end = (at / SECTOR + 1) * SECTOR;
        if end > to {
            return false;
        }
        if end - at >= ZEROS_MIN && data[at..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        at = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};

    use super::*;

    const SEAL_OF: u128 = 5;

    /// Records 1 to `count` of `body_len` bytes each; `durable` says what each of them knows to be durable.
    fn records(count: u64, body_len: usize, durable: impl Fn(u64) -> u64) -> BytesMut {
        let mut out = BytesMut::new();
        for seq in 1..=count {
            Seal::new(SEAL_OF)
                .write(&mut out, 1, seq, durable(seq).min(seq - 1), |out| out.put_bytes(b'x', body_len));
        }
        out
    }

    /// Whether the data reads to its end, or is torn; `None` if it is damaged.
    fn verdict(data: BytesMut) -> Option<bool> {
        let data = data.freeze();
        let mut scan = Scan { data: &data, seal: Seal::new(SEAL_OF), at: 0, next_seq: 1 };
        loop {
            match scan.next() {
                None => return Some(true),
                Some(Ok(_)) => {}
                Some(Err(_)) => return scan.is_torn_here().then_some(false),
            }
        }
    }

    #[test]
    fn an_unbroken_segment_is_read_to_its_end() {
        assert_eq!(verdict(records(10, 100, |seq| seq - 1)), Some(true));
    }

    #[test]
    fn any_incomplete_last_record_is_torn() {
        let whole = records(3, 100, |seq| seq - 1);
        for cut in 1..124 {
            let mut torn = whole.clone();
            torn.truncate(whole.len() - cut);
            assert_eq!(verdict(torn), Some(false));
            let mut zeroed = whole.clone();
            let at = whole.len() - cut;
            zeroed[at..].fill(0);
            assert_eq!(verdict(zeroed), Some(false));
        }
    }

    #[test]
    fn a_flipped_bit_before_a_sound_record_is_damage() {
        for at in 0..2 * 124 {
            let mut bad = records(3, 100, |_| 0);
            bad[at] ^= 4;
            assert_eq!(verdict(bad), None, "byte {at}");
        }
    }

    #[test]
    fn a_missing_sector_in_a_group_that_was_never_acknowledged_is_torn() {
        let mut hole = records(10, 488, |_| 2);
        hole[1_024..1_536].fill(0);
        assert_eq!(verdict(hole), Some(false));
    }

    #[test]
    fn a_missing_sector_that_was_acknowledged_is_damage() {
        let mut hole = records(10, 488, |seq| if seq == 10 { 3 } else { 2 });
        hole[1_024..1_536].fill(0);
        assert_eq!(verdict(hole), None);
    }

    #[test]
    fn a_record_out_of_order_is_damage() {
        let mut data = records(2, 10, |seq| seq - 1);
        Seal::new(SEAL_OF).write(&mut data, 1, 4, 2, |_| {});
        assert_eq!(verdict(data), None);
    }
}
