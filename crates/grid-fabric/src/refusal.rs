//! Converts a refusal to and from a gRPC status: the status carries the table's number, metadata carries the exact word.

use grid_types::Code;
use tonic::Status;
use tonic::metadata::MetadataValue;

const CODE: &str = "grid-code";
const LEADER_URL: &str = "grid-leader-url";
const PASSES_WITHIN_MS: &str = "grid-passes-within-ms";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FabricRefusal {
    pub code: Code,
    pub message: String,
    /// API URL of the leader, when it is another controller.
    pub leader_url: Option<String>,
    /// It may pass by itself, within this at the latest.
    pub passes_within_ms: Option<u64>,
}

impl FabricRefusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), leader_url: None, passes_within_ms: None }
    }
}

impl From<FabricRefusal> for Status {
    fn from(refusal: FabricRefusal) -> Self {
        let mut status = Self::new(tonic::Code::from_i32(refusal.code.grpc_number()), refusal.message);
        status.metadata_mut().insert(CODE, MetadataValue::from_static(refusal.code.word()));
        if let Some(url) = refusal.leader_url.and_then(|url| MetadataValue::try_from(url).ok()) {
            status.metadata_mut().insert(LEADER_URL, url);
        }
        if let Some(ms) = refusal.passes_within_ms {
            status.metadata_mut().insert(PASSES_WITHIN_MS, MetadataValue::from(ms));
        }
        status
    }
}

impl FabricRefusal {
    /// `None`: the status does not come from a Grid controller but from the transport.
    pub(crate) fn from_status(status: &Status) -> Option<Self> {
        let text = |key| status.metadata().get(key).and_then(|value| value.to_str().ok());
        let code = Code::from_word(text(CODE)?)?;
        let leader_url = text(LEADER_URL).map(str::to_owned);
        let passes_within_ms = text(PASSES_WITHIN_MS).and_then(|ms| ms.parse().ok());
        Some(Self { code, message: status.message().to_owned(), leader_url, passes_within_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::FabricRefusal;
    use grid_types::Code;
    use tonic::Status;

    #[test]
    fn a_refusal_keeps_its_exact_word_and_the_leader() {
        // NOT_LEADER, STALE_EPOCH and CONFLICT share one gRPC number.
        for code in [Code::NotLeader, Code::Conflict, Code::DuplicateNode] {
            let refusal = FabricRefusal {
                code,
                message: "ask the other one: größer".to_owned(),
                leader_url: Some("http://b:8765".to_owned()),
                passes_within_ms: Some(90_000),
            };
            assert_eq!(FabricRefusal::from_status(&Status::from(refusal.clone())), Some(refusal));
        }
        assert_eq!(FabricRefusal::from_status(&Status::unavailable("no route")), None);
    }
}
