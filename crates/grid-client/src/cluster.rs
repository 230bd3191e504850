//! Makes the calls about the controllers.
//!
//! None has an idempotency key: adding an existing member changes nothing, a member that is not found after a lost answer
//! counts as removed, and a step-down is sent at most once.

use grid_types::Code;
use grid_types::api::{ClusterDoc, JoinBody, JoinedDoc, RoleDoc, StepDownBody};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{Call, Journey};
use crate::client::{Client, decode};
use crate::error::Error;

impl Client {
    /// The controllers, as the first one that answers sees them.
    ///
    /// # Errors
    /// When no controller could answer.
    pub async fn cluster(&self) -> Result<ClusterDoc, Error> {
        self.get(&["api", "v1", "cluster"], Vec::new()).await
    }

    /// Adds a controller to the members.
    ///
    /// # Errors
    /// `CONFLICT` if its name is taken, or no controller could answer.
    pub async fn join(&self, body: &JoinBody) -> Result<JoinedDoc, Error> {
        self.tell(Method::POST, &["api", "v1", "cluster", "members"], Some(body)).await
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` with the reason, or no controller could answer.
    pub async fn remove_member(&self, id: &str) -> Result<ClusterDoc, Error> {
        let path = ["api", "v1", "cluster", "members", id];
        let mut journey = Journey::default();
        match self.transport.carry(&Call::delete(&path, Vec::new()), &mut journey).await {
            Ok(answer) => decode(&answer),
            // After a lost answer, "not found" means that the member was removed as requested; a standby may not have applied
            // it yet.
            Err(error) if journey.maybe_done && error.code() == Some(Code::NotFound) => {
                let mut cluster = self.cluster().await?;
                cluster.members.retain(|member| member.id != id);
                Ok(cluster)
            }
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` with the reason, or no controller could answer.
    pub async fn promote_member(&self, id: &str) -> Result<ClusterDoc, Error> {
        self.tell(Method::POST, &["api", "v1", "cluster", "members", id, "promote"], None::<&()>).await
    }

    /// # Errors
    /// `NOT_FOUND`, `CONFLICT` with the reason, or no controller could answer.
    pub async fn demote_member(&self, id: &str) -> Result<ClusterDoc, Error> {
        self.tell(Method::POST, &["api", "v1", "cluster", "members", id, "demote"], None::<&()>).await
    }

    /// Lets a superseded cluster accept writes again.
    ///
    /// # Errors
    /// `CONFLICT` if it is not superseded, or no controller could answer.
    pub async fn lift_superseded(&self) -> Result<ClusterDoc, Error> {
        self.tell(Method::POST, &["api", "v1", "cluster", "lift"], None::<&()>).await
    }

    /// Hands leadership over, and returns the new leader.
    ///
    /// # Errors
    /// `CONFLICT` if no controller can take over, or no controller could answer.
    pub async fn step_down(&self, to: Option<String>) -> Result<RoleDoc, Error> {
        let body = serde_json::to_vec(&StepDownBody { to }).map_err(|e| Error::Setup(e.to_string()))?;
        let path = ["api", "v1", "cluster", "step-down"];
        // Sent again, it would make the next leader step down too.
        let call = Call { at_most_once: true, ..Call::post(&path, body) };
        decode(&self.transport.carry(&call, &mut Journey::default()).await?)
    }

    async fn tell<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&impl Serialize>,
    ) -> Result<T, Error> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|e| Error::Setup(e.to_string()))?;
        let call = Call { method, body, ..Call::get(path, Vec::new()) };
        decode(&self.transport.carry(&call, &mut Journey::default()).await?)
    }
}
