//! A codec with small buffers for the one call that stays open as long as a worker lives.
//!
//! tonic allocates 8 KiB to encode and 8 KiB to decode per stream; 256 bytes save up to 15 KiB a session and grow when
//! a message needs more. The generated code picks its codec itself, so both ends call this path by hand.
//!
//! It also refuses messages of too many elements before anything of them is decoded (`shape`), so a registration has it, too.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

use crate::shape::{Shaped, is_sparse};

pub(super) const HEARTBEAT_PATH: &str = "/grid.worker.v1.Fabric/Heartbeat";

const BUFFER_BYTES: usize = 256;
const YIELD_BYTES: usize = 8 * 1024;

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
    D: Message + Default + Shaped + Send + 'static,
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

/// Decodes a message that [`is_sparse`].
pub(super) struct SparseDecoder<D>(ProstDecoder<D>);

impl<D: Message + Default + Shaped> Decoder for SparseDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        // The part that is contiguous, which is the whole message in all versions of tonic so far.
        if !is_sparse::<D>(bytes.chunk()) {
            return Err(Status::out_of_range("a message has too many elements"));
        }
        self.0.decode(bytes)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}
