//! A plain HTTP agent that a test controls: each poll and each result by hand.

use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::wait::{LIMIT, ensure, wait_until};

/// An agent of that name, which runs the backends `ping` and `test`.
#[derive(Debug, Clone)]
pub struct Agent {
    name: String,
}

impl Agent {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// The body of a poll; `more` is added to it.
    pub fn question(&self, more: &Value) -> Value {
        let said = json!({"agent": self.name, "wait": "0s", "backends": ["ping", "test"]});
        crate::spec::with(said, more.clone())
    }

    /// Polls once, whatever the answer.
    pub fn ask(&self, api: &Api, more: &Value) -> Answer {
        api.post("/v1/leases", &self.question(more))
    }

    /// Polls once and returns the body, which must not be a refusal.
    pub fn told(&self, api: &Api, more: &Value) -> Value {
        let answer = self.ask(api, more);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The leases of one answer.
    pub fn leases(&self, api: &Api, more: &Value) -> Vec<Value> {
        self.told(api, more)["leases"].as_array().expect("leases").clone()
    }

    /// Polls until it gets a lease of that job.
    pub fn wait_lease(&self, api: &Api, job: &str) -> Value {
        wait_until(&format!("a lease of {job} for {}", self.name), LIMIT, || {
            let answer =
                api.request(reqwest::Method::POST, "/v1/leases", &[], Some(self.question(&json!({})).to_string()))?;
            let leases = answer.json()["leases"].as_array().cloned().unwrap_or_default();
            ensure(answer.status == 200, format!("{answer:?}"))?;
            leases.into_iter().find(|lease| lease["job_id"] == job).ok_or_else(|| format!("{answer:?}"))
        })
    }

    /// The body of a result.
    pub fn result(&self, lease: &Value, status: &str) -> Value {
        let mut body = json!({"agent": self.name, "status": status, "duration": "0.1s"});
        for field in ["lease_id", "job_id", "job_epoch", "leader_epoch", "step", "attempt"] {
            body[field] = lease[field].clone();
        }
        body
    }

    pub fn report(&self, api: &Api, lease: &Value, status: &str) -> Answer {
        api.post("/v1/results", &self.result(lease, status))
    }
}
