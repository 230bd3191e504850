//! Encodes requests and replies of workers, and tells a reply of Grid from any other (N1).
//!
//! A reply is the protobuf message of the call under `Grid-Reply: ok`, or a refusal: its code, leader and patience as headers, the text
//! as body. Whatever has neither header, such as the ack of a stream that captures too much, is no reply.

use async_nats::HeaderMap;
use bytes::Bytes;
use grid_types::Code;
use prost::Message;

use crate::refusal::FabricRefusal;
use crate::shape::{Shaped, is_sparse};

const REPLY: &str = "Grid-Reply";
const CODE: &str = "Grid-Code";
const LEADER_URL: &str = "Grid-Leader-Url";
const PASSES_WITHIN_MS: &str = "Grid-Passes-Within-Ms";
const OK: &str = "ok";
const STOP: &str = "stop";
/// Of a refusal's text: a header or a body from another process goes into a log.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// What the leader answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Ok(Bytes),
    /// Done, and nothing more of this is wanted.
    Stop,
    Refused(FabricRefusal),
}

impl Reply {
    pub(super) fn encode(self) -> (HeaderMap, Bytes) {
        let mut headers = HeaderMap::new();
        match self {
            Self::Ok(body) => {
                headers.insert(REPLY, OK);
                (headers, body)
            }
            Self::Stop => {
                headers.insert(REPLY, STOP);
                (headers, Bytes::new())
            }
            Self::Refused(refusal) => {
                headers.insert(CODE, refusal.code.word());
                if let Some(url) = refusal.leader_url.filter(|url| url.bytes().all(|byte| byte.is_ascii_graphic())) {
                    headers.insert(LEADER_URL, url.as_str());
                }
                if let Some(ms) = refusal.passes_within_ms {
                    headers.insert(PASSES_WITHIN_MS, ms.to_string().as_str());
                }
                (headers, Bytes::from(refusal.message))
            }
        }
    }

    /// `None`: it does not come from a Grid controller.
    pub(super) fn decode(message: &async_nats::Message) -> Option<Self> {
        let headers = message.headers.as_ref()?;
        let text = |name| headers.get(name).map(async_nats::HeaderValue::as_str);
        if let Some(code) = text(CODE) {
            let end = message.payload.len().min(MAX_TEXT_BYTES);
            let refusal = FabricRefusal {
                code: Code::from_word(code)?,
                message: String::from_utf8_lossy(&message.payload[..end]).into_owned(),
                leader_url: text(LEADER_URL).map(str::to_owned),
                passes_within_ms: text(PASSES_WITHIN_MS).and_then(|ms| ms.parse().ok()),
            };
            return Some(Self::Refused(refusal));
        }
        match text(REPLY)? {
            OK => Some(Self::Ok(message.payload.clone())),
            STOP => Some(Self::Stop),
            _ => None,
        }
    }
}

pub(super) fn encoded(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

/// `None`: it is too large, has too many elements, or is something else.
pub(super) fn decoded<M: Message + Default + Shaped>(payload: &[u8], most_bytes: usize) -> Option<M> {
    if payload.len() > most_bytes || !is_sparse::<M>(payload) {
        return None;
    }
    M::decode(payload).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use grid_types::Code;

    use super::Reply;
    use crate::FabricRefusal;

    fn message(headers: Option<async_nats::HeaderMap>, payload: Bytes) -> async_nats::Message {
        let (subject, status, description) = ("_INBOX.a.b".into(), None, None);
        async_nats::Message { subject, reply: None, length: payload.len(), payload, headers, status, description }
    }

    #[test]
    fn replies_are_read_as_they_are_written() {
        let refusal = FabricRefusal {
            code: Code::DuplicateNode,
            message: "größer".to_owned(),
            leader_url: Some("http://b:8765".to_owned()),
            passes_within_ms: Some(16_000),
        };
        for reply in [Reply::Ok(Bytes::from_static(b"x")), Reply::Stop, Reply::Refused(refusal)] {
            let (headers, body) = reply.clone().encode();
            assert_eq!(Reply::decode(&message(Some(headers), body)), Some(reply));
        }
    }

    #[test]
    fn n1_the_ack_of_a_stream_is_no_reply() {
        let ack = Bytes::from_static(br#"{"stream":"results","seq":1}"#);
        assert_eq!(Reply::decode(&message(None, ack.clone())), None);
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Msg-Id", "1");
        assert_eq!(Reply::decode(&message(Some(headers), ack)), None);
    }

    #[test]
    fn a_leader_url_that_would_break_the_headers_is_left_out() {
        let refusal = FabricRefusal {
            leader_url: Some("http://b\r\nX: y".to_owned()),
            ..FabricRefusal::new(Code::NotLeader, "no")
        };
        let (headers, body) = Reply::Refused(refusal).encode();
        let Some(Reply::Refused(read)) = Reply::decode(&message(Some(headers), body)) else { panic!("no refusal") };
        assert_eq!(read.leader_url, None);
    }
}
