//! Reads a part of an output, from memory or from its file.

use std::io::{self, Read, Seek, SeekFrom};

/// Read at once while looking for the beginning of a line.
const BLOCK_BYTES: usize = 64 * 1024;

/// Which part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) offset: u64,
    /// Bytes up to here are known already.
    pub(crate) seen: u64,
    /// Not 0: begin with the last so many lines instead of at `offset`.
    pub(crate) tail_lines: u32,
    pub(crate) limit: usize,
}

/// What was there.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
    /// There was more than is known already, or the output is another one.
    pub(crate) is_new: bool,
}

impl Wanted {
    pub(crate) fn read(self, output: &mut (impl Read + Seek)) -> io::Result<Look> {
        let len = output.seek(SeekFrom::End(0))?;
        let offset = match self.tail_lines {
            0 => self.offset,
            lines => tail_start(output, len, lines)?,
        };
        let is_new = len > offset.max(self.seen) || len < offset;
        let mut data = Vec::new();
        if len > offset {
            output.seek(SeekFrom::Start(offset))?;
            output.take(self.limit as u64).read_to_end(&mut data)?;
        }
        Ok(Look { offset, data, is_new })
    }
}

/// Where the last so many lines begin; a last one without its end counts.
fn tail_start(output: &mut (impl Read + Seek), len: u64, lines: u32) -> io::Result<u64> {
    let mut at = len;
    let mut found = 0;
    let mut block = vec![0; BLOCK_BYTES];
    while at > 0 {
        let from = at.saturating_sub(BLOCK_BYTES as u64);
        let count = usize::try_from(at - from).unwrap_or(BLOCK_BYTES);
        output.seek(SeekFrom::Start(from))?;
        output.read_exact(&mut block[..count])?;
        for (i, byte) in block[..count].iter().enumerate().rev() {
            let end = from + i as u64 + 1;
            // The end of the last line begins none.
            if *byte == b'\n' && end < len {
                found += 1;
                if found == lines {
                    return Ok(end);
                }
            }
        }
        at = from;
    }
    Ok(0)
}
