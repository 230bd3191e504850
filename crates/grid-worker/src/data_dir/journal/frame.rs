//! Frames records in the file, and distinguishes damage from a torn end.
//!
//! ```text
//!   "GRIDJNL1" seed:8  |  length:4 checksum:4 payload  |  length:4 checksum:4 payload  | …
//! ```
//!
//! The checksum covers the file's random seed and the frame's own offset, so that bytes which merely look like a frame
//! (a leftover of an older file, a journal quoted in an error text) never count as one.
//! A torn tail is a bad frame with no good one behind it: what a crash in the middle of a write leaves. A bad frame with
//! good ones behind it is damage to what was already there, and skipping it could run a `once` step again.
//! Not here: whether what is torn or missing was ever acted on (`extent`).

use std::ops::Range;

use crate::engine::record::Record;

const MAGIC: &[u8; 8] = b"GRIDJNL1";
const HEADER_BYTES: usize = 16;
const PREFIX_BYTES: usize = 8;
/// No honest record is larger: an output in it has 64 KiB at most, an error 4 KiB.
const MAX_PAYLOAD_BYTES: usize = 128 * 1024;

/// Why a journal cannot be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("the file is not a journal")]
    Header,
    #[error("damaged at byte {0}, with good records behind it")]
    Middle(usize),
    #[error("good up to byte {good_bytes} only, of {written_bytes} that were written")]
    Short { good_bytes: u64, written_bytes: u64 },
    #[error("torn at byte {good_bytes}, and the machine was started again since")]
    Torn { good_bytes: u64 },
    #[error("the file that says how long it was is missing, damaged or of another journal")]
    Unrecorded,
}

#[derive(Debug)]
pub(super) struct Scan {
    pub(super) seed: u64,
    pub(super) payloads: Vec<Range<usize>>,
    /// Up to here everything is whole.
    pub(super) good_bytes: usize,
}

pub(super) fn header(seed: u64) -> Vec<u8> {
    [&MAGIC[..], &seed.to_le_bytes()].concat()
}

/// Appends one frame. `base`: where in the file `bytes` will begin.
pub(super) fn encode(bytes: &mut Vec<u8>, seed: u64, base: u64, record: &Record) {
    let offset = base + bytes.len() as u64;
    let begin = bytes.len();
    bytes.extend_from_slice(&[0; PREFIX_BYTES]);
    let mut encoder = minicbor::Encoder::new(&mut *bytes);
    // Writing into memory cannot fail.
    let _ = encoder.encode(record);
    let payload = &bytes[begin + PREFIX_BYTES..];
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let sum = checksum(seed, offset, payload);
    bytes[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    bytes[begin + 4..begin + PREFIX_BYTES].copy_from_slice(&sum.to_le_bytes());
}

pub(super) fn scan(bytes: &[u8]) -> Result<Scan, Damage> {
    let scan = good_part(bytes).ok_or(Damage::Header)?;
    let bad = scan.good_bytes;
    if (bad + 1..bytes.len()).any(|offset| frame_at(bytes, scan.seed, offset).is_some()) {
        return Err(Damage::Middle(bad));
    }
    Ok(scan)
}

/// Every payload that is whole, whatever is damaged before it.
pub(super) fn readable(bytes: &[u8]) -> Vec<Range<usize>> {
    let Some(mut scan) = good_part(bytes) else { return Vec::new() };
    let mut offset = scan.good_bytes;
    while offset < bytes.len() {
        let frame = frame_at(bytes, scan.seed, offset);
        offset = frame.as_ref().map_or(offset + 1, |payload| payload.end);
        scan.payloads.extend(frame);
    }
    scan.payloads
}

fn good_part(bytes: &[u8]) -> Option<Scan> {
    let seed = bytes.strip_prefix(MAGIC)?.first_chunk::<8>()?;
    let mut scan = Scan { seed: u64::from_le_bytes(*seed), payloads: Vec::new(), good_bytes: HEADER_BYTES };
    while let Some(payload) = frame_at(bytes, scan.seed, scan.good_bytes) {
        scan.good_bytes = payload.end;
        scan.payloads.push(payload);
    }
    Some(scan)
}

/// The payload of the whole frame at `offset`, if there is one.
fn frame_at(bytes: &[u8], seed: u64, offset: usize) -> Option<Range<usize>> {
    let prefix = bytes.get(offset..offset + PREFIX_BYTES)?;
    let len = usize::try_from(u32::from_le_bytes(*prefix.first_chunk()?)).ok()?;
    if len == 0 || len > MAX_PAYLOAD_BYTES {
        return None;
    }
    let range = offset + PREFIX_BYTES..offset + PREFIX_BYTES + len;
    let payload = bytes.get(range.clone())?;
    let sum = u32::from_le_bytes(*prefix.last_chunk()?);
    (checksum(seed, offset as u64, payload) == sum).then_some(range)
}

fn checksum(seed: u64, offset: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&offset.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}
