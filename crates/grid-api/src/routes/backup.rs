//! Serves `GET /api/v1/cluster/backup`: the whole state as one file, from any controller.
//!
//! It has everything that was acknowledged before the request, or it is refused with NO_QUORUM: a controller that cannot
//! confirm this (E6) may lack jobs. `?stale=true` takes what this controller has, and the file says so.
//! The headers have its length and hash: a receiver that has less, or other bytes, has no backup. So they
//! are known before the first byte, and the answer may take as long as writing the file does.

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use grid_controller::{BackupScope, Cluster};
use grid_types::Code;
use grid_types::api::{
    HEADER_BACKUP_BLAKE3, HEADER_BACKUP_EPOCH, HEADER_BACKUP_INDEX, HEADER_BACKUP_JOBS, HEADER_BACKUP_STALE,
    HEADER_BACKUP_TAKEN,
};

use crate::http::caller::Asked;
use crate::http::query::Params;
use crate::http::refused::Refused;
use crate::http::streams::{self, Closing};

#[utoipa::path(
    get,
    path = "/api/v1/cluster/backup",
    tag = "cluster",
    operation_id = "backup",
    params(
        ("stale" = Option<bool>, Query, description = "take what this controller has, also if it cannot confirm that nothing acknowledged is missing"),
    ),
    responses(
        (
            status = 200,
            description = "the whole state as one file",
            content_type = "application/octet-stream",
            body = Vec<u8>,
            headers(
                ("X-Grid-Backup-Blake3" = String, description = "hash of the whole file"),
                ("X-Grid-Backup-Index" = u64, description = "the last entry of the log in it"),
                ("X-Grid-Backup-Epoch" = u64, description = "the leader epoch of that entry"),
                ("X-Grid-Backup-Jobs" = u64, description = "unfinished jobs in it"),
                ("X-Grid-Backup-Taken-At" = String, description = "the time of the state: everything acknowledged before it is in the file; of a stale backup, the time of its last entry"),
                ("X-Grid-Backup-Stale" = bool, description = "whether something that was acknowledged may be missing"),
            ),
        ),
    ),
)]
pub async fn backup<C: Cluster>(
    Asked { control, caller }: Asked<C>,
    closing: Closing,
    mut params: Params,
) -> Result<Response, Refused> {
    let scope = params.word("stale", &[("true", BackupScope::AppliedHere), ("false", BackupScope::Acknowledged)]);
    params.finish()?;
    let backup = control.backup(&caller, scope.unwrap_or(BackupScope::Acknowledged)).await?;
    let named = format!("attachment; filename=\"grid-{}.backup\"", backup.index);
    let head = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
        (CONTENT_LENGTH, backup.bytes.to_string()),
        (CONTENT_DISPOSITION, named),
        (HeaderName::from_static(HEADER_BACKUP_BLAKE3), backup.blake3),
        (HeaderName::from_static(HEADER_BACKUP_INDEX), backup.index.to_string()),
        (HeaderName::from_static(HEADER_BACKUP_EPOCH), backup.leader_epoch.to_string()),
        (HeaderName::from_static(HEADER_BACKUP_STALE), backup.stale.to_string()),
        (HeaderName::from_static(HEADER_BACKUP_JOBS), backup.jobs.to_string()),
        (HeaderName::from_static(HEADER_BACKUP_TAKEN), backup.taken_at),
    ];
    let mut response = Response::new(streams::body(backup.pieces, closing, Bytes::new(), "", Ok));
    for (name, value) in head {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|e| Refused::new(Code::Internal, format!("the backup cannot be named: {e}")))?;
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}
