//! A small blocking HTTP client: one connection per request, JSON both ways.
//!
//! Connections are not kept, because the server on the other side is killed and
//! restarted under the same address; a pooled connection would report that as an
//! error of the next request.
//! Not here: following NOT_LEADER. Tests check it.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use reqwest::blocking::Client;
use serde_json::Value;

use crate::job::Job;
use crate::wait::{LIMIT, ensure, wait_until};

/// The API of one controller.
#[derive(Debug, Clone)]
pub struct Api {
    base: String,
    client: Client,
}

/// One answer, whatever its status.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub text: String,
}

impl Api {
    pub fn new(base_url: &str) -> Self {
        let client = Client::builder()
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(30))
            .no_proxy()
            .build()
            .expect("a plain HTTP client");
        Self { base: base_url.trim_end_matches('/').to_owned(), client }
    }

    /// Its address, like `http://127.0.0.1:8765`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The same controller, given up after `timeout`: for one that may be stopped.
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        let client = Client::builder().pool_max_idle_per_host(0).timeout(timeout).no_proxy().build();
        Self { base: self.base.clone(), client: client.expect("a plain HTTP client") }
    }

    /// Sends one request; an error means that there was no answer.
    ///
    /// # Errors
    /// The error of the transport.
    pub fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Answer, String> {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let response = request.send().map_err(|e| format!("{path}: {e:?}"))?;
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers = headers.map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.as_str().to_owned(), value.into_owned())
        });
        let headers = headers.collect();
        let text = response.text().map_err(|e| format!("{path}: {e:?}"))?;
        Ok(Answer { status, headers, text })
    }

    /// # Errors
    /// When there is no answer.
    pub fn try_get(&self, path: &str) -> Result<Answer, String> {
        self.request(Method::GET, path, &[], None)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|e| panic!("GET {e}"))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body)
    }

    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.request(Method::POST, path, headers, Some(body.to_string())).unwrap_or_else(|e| panic!("POST {e}"))
    }

    /// Submits a job that must be accepted and returns its id.
    pub fn submit(&self, job: &Value) -> String {
        let answer = self.post("/job", job);
        assert_eq!(answer.status, 201, "submit of {job}: {answer:?}");
        answer.id()
    }

    /// Submits with an idempotency key until a controller acknowledges it: for tests that kill the server meanwhile. `Err`
    /// while the server is away or cannot accept it.
    ///
    /// # Errors
    /// The answer, if it is not an acknowledgement.
    pub fn try_submit(&self, key: &str, job: &Value) -> Result<String, String> {
        let headers = [("idempotency-key", key)];
        let answer = self.request(Method::POST, "/job", &headers, Some(job.to_string()))?;
        match answer.status {
            200 | 201 => Ok(answer.id()),
            // Refused for a reason that waiting does not change.
            400 | 404 | 413 | 422 => panic!("submit of {job}: {answer:?}"),
            _ => Err(format!("{answer:?}")),
        }
    }

    pub fn job(&self, id: &str) -> Job {
        self.try_job(id).unwrap_or_else(|e| panic!("{e}"))
    }

    /// # Errors
    /// When there is no answer, or one without the job.
    pub fn try_job(&self, id: &str) -> Result<Job, String> {
        let answer = self.try_get(&format!("/job/{id}"))?;
        if answer.status == 200 { Ok(Job(answer.json())) } else { Err(format!("GET /job/{id}: {answer:?}")) }
    }

    /// Polls the job until `probe` is satisfied with it; the server may be away meanwhile.
    pub fn wait_job(&self, id: &str, what: &str, probe: impl Fn(&Job) -> bool) -> Job {
        self.wait_job_within(id, what, LIMIT, probe)
    }

    pub fn wait_job_within(&self, id: &str, what: &str, limit: Duration, probe: impl Fn(&Job) -> bool) -> Job {
        wait_until(&format!("job {id}: {what}"), limit, || {
            let job = self.try_job(id)?;
            ensure(probe(&job), &job)?;
            Ok(job)
        })
    }

    /// The job once it has ended and none of its steps runs any more.
    pub fn wait_ended(&self, id: &str) -> Job {
        self.wait_ended_within(id, LIMIT)
    }

    pub fn wait_ended_within(&self, id: &str, limit: Duration) -> Job {
        self.wait_job_within(id, "ended, nothing running", limit, |job| {
            job.ended() && job.count("running") == 0 && job.count("pending") == 0
        })
    }

    /// Cancels it; the caller checks the answer.
    pub fn cancel(&self, id: &str) -> Answer {
        let path = format!("/job/{id}/cancel");
        self.request(Method::POST, &path, &[], None).unwrap_or_else(|e| panic!("POST {e}"))
    }

    /// A node's document.
    ///
    /// # Errors
    /// When there is no answer, or one without the node.
    pub fn try_node(&self, node: &str) -> Result<Value, String> {
        let answer = self.try_get(&format!("/node/{node}"))?;
        ensure(answer.status == 200, format!("{answer:?}"))?;
        Ok(answer.json())
    }

    /// Waits for the node's exact state: `ready`, `warning`, `unhealthy`, `dead`, `draining`, `left`.
    pub fn wait_node(&self, node: &str, state: &str) -> Value {
        wait_until(&format!("node {node} {state}"), LIMIT, || {
            let seen = self.try_node(node)?;
            ensure(seen["state"] == state, &seen)?;
            Ok(seen)
        })
    }
}

impl Answer {
    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_lowercase()).map(String::as_str)
    }

    /// The `error` code of an error answer.
    pub fn error(&self) -> String {
        let json = self.json();
        json["error"].as_str().unwrap_or_default().to_owned()
    }

    fn id(&self) -> String {
        match self.json()["id"].as_str() {
            Some(id) => id.to_owned(),
            None => panic!("no id in {self:?}"),
        }
    }
}
