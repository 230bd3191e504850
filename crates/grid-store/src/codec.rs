//! Converts values to columns and back: ids as integers, everything else as CBOR.

use grid_types::JobId;
use minicbor::Encode;
use rusqlite::Row;

use crate::error::Fault;

/// Job ids leave the top bit free, for this.
pub(crate) fn key(id: JobId) -> i64 {
    id.0.cast_signed()
}

pub(crate) fn encoded<T: Encode<()>>(value: &T) -> Result<Vec<u8>, Fault> {
    minicbor::to_vec(value).map_err(|e| Fault::Contradiction(format!("a value cannot be encoded: {e}")))
}

pub(crate) fn blob<T: for<'b> minicbor::Decode<'b, ()>>(row: &Row<'_>, column: usize) -> Result<T, Fault> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|e| Fault::Value(e.to_string()))?;
    Ok(minicbor::decode(bytes)?)
}

pub(crate) fn optional_blob<T: for<'b> minicbor::Decode<'b, ()>>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, Fault> {
    let bytes = row.get_ref(column)?.as_blob_or_null().map_err(|e| Fault::Value(e.to_string()))?;
    Ok(bytes.map(minicbor::decode).transpose()?)
}
