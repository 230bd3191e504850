//! Encodes the column `reason` of a result: the reason for its outcome, and further detail about the attempt.
//!
//! A row without detail has the reason alone, as every row had before there were details; one with a detail has a map of both. A column of its own
//! would be another version of the tables, which no older data folder has.

use grid_core::ResultRow;
use grid_types::{Detail, Reason};
use minicbor::data::Type;
use minicbor::{Decode, Decoder, Encode, decode};

use crate::codec::encoded;
use crate::error::Fault;

/// What the column says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    pub reason: Option<Reason>,
    pub detail: Detail,
}

#[derive(Encode)]
#[cbor(map)]
struct Both<'a> {
    #[n(0)]
    reason: Option<&'a Reason>,
    #[n(1)]
    detail: Detail,
}

#[derive(Decode)]
#[cbor(map)]
struct Read {
    #[n(0)]
    reason: Option<Reason>,
    #[n(1)]
    detail: Detail,
}

/// What to store.
pub(crate) fn noted(row: &ResultRow) -> Result<Option<Vec<u8>>, Fault> {
    match (row.reason.as_ref(), row.detail) {
        (None, None) => Ok(None),
        (Some(reason), None) => encoded(reason).map(Some),
        (reason, Some(detail)) => encoded(&Both { reason, detail }).map(Some),
    }
}

impl<'b> Decode<'b, ()> for Noted {
    fn decode(d: &mut Decoder<'b>, ctx: &mut ()) -> Result<Self, decode::Error> {
        if matches!(d.datatype()?, Type::Map | Type::MapIndef) {
            let Read { reason, detail } = Read::decode(d, ctx)?;
            return Ok(Self { reason, detail });
        }
        Ok(Self { reason: Some(Reason::decode(d, ctx)?), detail: Detail::default() })
    }
}
