//! Writes the answers to clients: headers for programs that look no further, the documents of the HTTP API as bodies.

use async_nats::HeaderMap;
use bytes::Bytes;
use grid_types::Code;
use grid_types::api::ErrorDoc;
use serde_json::{Value, json};

use crate::intake::JobRefusal;

/// Where a client wants its answer.
pub const REPLY_TO: &str = "Grid-Reply-To";
/// Not the header of the answers to workers: a client chooses where its answer goes, and none may pass for another.
const ANSWER: &str = "Grid-Answer";
const CODE: &str = "Grid-Code";
/// Fields of a job that identify it, for an answer that would be too large otherwise.
const SHORT: [&str; 5] = ["id", "namespace", "status", "job_epoch", "created_at"];

/// Headers and body.
pub type Answer = (HeaderMap, Bytes);

pub fn accepted(document: &Value, most_bytes: usize) -> Answer {
    let mut body = document.to_string();
    if body.len() > most_bytes {
        let short: serde_json::Map<_, _> =
            SHORT.iter().map(|field| ((*field).to_owned(), document[*field].clone())).collect();
        body = Value::Object(short).to_string();
    }
    let mut headers = HeaderMap::new();
    headers.insert(ANSWER, "accepted");
    (headers, Bytes::from(body))
}

pub fn refused(refusal: &JobRefusal) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(ANSWER, "refused");
    headers.insert(CODE, refusal.code.word());
    (headers, Bytes::from(refusal.document.to_string()))
}

/// A refusal that the fabric makes itself.
pub fn refusal(code: Code, message: String) -> JobRefusal {
    let document = ErrorDoc { error: code.word().to_owned(), message: message.clone(), details: Vec::new() };
    JobRefusal { code, message, document: json!(document) }
}

#[cfg(test)]
mod tests {
    use super::accepted;
    use serde_json::{Value, json};

    #[test]
    fn n8_an_answer_that_does_not_fit_keeps_what_identifies_the_job() {
        let job = json!({"id": "job-1", "status": "pending", "tasks": "x".repeat(1_000)});
        let (_, whole) = accepted(&job, 10_000);
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap(), job);
        let (_, short) = accepted(&job, 500);
        let short: Value = serde_json::from_slice(&short).unwrap();
        assert_eq!((&short["id"], &short["status"], short.get("tasks")), (&job["id"], &job["status"], None));
    }
}
