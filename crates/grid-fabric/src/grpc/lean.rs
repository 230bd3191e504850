//! A codec with small buffers for the one call that stays open as long as a worker lives.
//!
//! tonic allocates 8 KiB to encode and 8 KiB to decode per stream; 256 bytes save up to 15 KiB a session and grow when
//! a message needs more. The generated code picks its codec itself, so both ends call this path by hand.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

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
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> ProstEncoder<E> {
        ProstEncoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }

    fn decoder(&mut self) -> ProstDecoder<D> {
        ProstDecoder::new(BufferSettings::new(BUFFER_BYTES, YIELD_BYTES))
    }
}
