//! A codec with small buffers for the one call that stays open as long as a worker lives.
//!
//! tonic allocates 8 KiB to encode and 8 KiB to decode per stream; 256 bytes save up to 15 KiB a session and grow when
//! a message needs more. The generated code picks its codec itself, so both ends call this path by hand.
//!
//! It also bounds the number of fields of a message before anything is allocated: an empty report takes two bytes on the wire
//! and more than a hundred in memory, so that 4 MiB of them would become 300 MB.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

pub(super) const HEARTBEAT_PATH: &str = "/grid.worker.v1.Fabric/Heartbeat";

const BUFFER_BYTES: usize = 256;
const YIELD_BYTES: usize = 8 * 1024;
/// Fields of one message, each element of a list counted; far above what a worker or a leader puts into one.
const MAX_FIELDS: usize = 64 << 10;

/// Sends `E`, receives `D`.
pub(super) struct LeanCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> LeanCodec<E, D> {
    pub(super) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for LeanCodec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = SparseDecoder<D>;

    fn encoder(&mut self) -> ProstEncoder<E> {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> SparseDecoder<D> {
        SparseDecoder(ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)))
    }
}

/// Decodes a message of at most [`MAX_FIELDS`] fields.
pub(super) struct SparseDecoder<D>(ProstDecoder<D>);

impl<D: Message + Default> Decoder for SparseDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        // The part that lies in one piece, which is the whole message in all versions of tonic so far.
        if !is_sparse(bytes.chunk()) {
            return Err(Status::out_of_range("a message has too many fields"));
        }
        self.0.decode(bytes)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// What cannot be read counts as sparse: the decoder behind it refuses it.
fn is_sparse(mut bytes: &[u8]) -> bool {
    // A field takes two bytes at least.
    if bytes.len() <= 2 * MAX_FIELDS {
        return true;
    }
    for _ in 0..MAX_FIELDS {
        let Ok((_, wire)) = decode_key(&mut bytes) else { return true };
        let skipped = match wire {
            WireType::Varint => decode_varint(&mut bytes).is_ok().then_some(0),
            WireType::SixtyFourBit => Some(8),
            WireType::LengthDelimited => decode_varint(&mut bytes).ok(),
            WireType::ThirtyTwoBit => Some(4),
            WireType::StartGroup | WireType::EndGroup => None,
        };
        let rest = skipped.and_then(|count| bytes.get(usize::try_from(count).ok()?..));
        let Some(rest) = rest else { return true };
        bytes = rest;
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use grid_proto::v1;
    use prost::Message;

    use super::{MAX_FIELDS, is_sparse};

    #[test]
    fn issue14_5_a_message_of_a_million_empty_reports_is_not_decoded() {
        let dense = v1::FromWorker { results: vec![v1::LeaseResult::default(); MAX_FIELDS + 1], ..Default::default() };
        assert!(!is_sparse(&dense.encode_to_vec()));
        let most = v1::FromWorker { results: vec![v1::LeaseResult::default(); MAX_FIELDS], ..Default::default() };
        assert!(is_sparse(&most.encode_to_vec()));
        let results = vec![v1::LeaseResult { output_tail: vec![7; 16 << 10], ..Default::default() }; 200];
        assert!(is_sparse(&v1::FromWorker { session: 1, results, ..Default::default() }.encode_to_vec()));
        assert!(is_sparse(&[0xff; 1 << 20]), "refused by the decoder");
        assert!(is_sparse(&[]));
    }
}
