//! Names in paths. Canonical paths name a namespace, aliases mean `default`: the same types read both.
//!
//! A path names an object; a name that no object can have is 404 like any other object that is not there.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use grid_types::decl::{self, BackendDecl};
use grid_types::{Code, JobRef, Namespace, NodeId, StepIndex};
use serde::Deserialize;

use crate::http::refused::Refused;

/// `{ns}`.
#[derive(Debug)]
pub struct InNamespace(pub Namespace);

/// `{ns}`, `{id}`.
#[derive(Debug)]
pub struct OfJob(pub JobRef);

/// `{ns}`, `{id}`, `{step}`.
#[derive(Debug)]
pub struct OfStep {
    pub job: JobRef,
    pub step: StepIndex,
}

/// `{ns}`, `{id}`, `{step}`, `{node}`.
#[derive(Debug)]
pub struct OfOutput {
    pub job: JobRef,
    pub step: StepIndex,
    pub node: NodeId,
}

/// `{id}` of a node.
#[derive(Debug)]
pub struct OfNode(pub NodeId);

/// `{id}` of a backend.
#[derive(Debug)]
pub struct OfBackend(pub &'static BackendDecl);

/// Whatever of these the route has.
#[derive(Debug, Deserialize)]
struct Raw {
    ns: Option<String>,
    id: Option<String>,
    step: Option<String>,
    node: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for InNamespace {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        raw(parts, state).await?.namespace().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfJob {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        raw(parts, state).await?.job().map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfStep {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let raw = raw(parts, state).await?;
        Ok(Self { job: raw.job()?, step: raw.step()? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfOutput {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let raw = raw(parts, state).await?;
        Ok(Self { job: raw.job()?, step: raw.step()?, node: node(raw.node.as_deref())? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfNode {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let raw = raw(parts, state).await?;
        node(raw.id.as_deref()).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OfBackend {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let raw = raw(parts, state).await?;
        let name = raw.id.as_deref().unwrap_or_default();
        decl::backend(name).map(Self).ok_or_else(|| {
            let known: Vec<_> = decl::builtin().iter().map(|backend| backend.name).collect();
            let message = format!("no backend {}; there are {}", shown(name), known.join(", "));
            Refused::new(Code::NotFound, message)
        })
    }
}

async fn raw<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Raw, Refused> {
    // Only percent-encoding that is no UTF-8 can fail here.
    let Path(raw) = Path::<Raw>::from_request_parts(parts, state)
        .await
        .map_err(|e| Refused::new(Code::BadRequest, format!("the path cannot be read: {e}")))?;
    Ok(raw)
}

impl Raw {
    fn namespace(&self) -> Result<Namespace, Refused> {
        let name = self.ns.as_deref().unwrap_or(Namespace::DEFAULT);
        let known = name.parse().ok().filter(|_| name == Namespace::DEFAULT);
        known.ok_or_else(|| {
            let message = format!("no namespace {}; there is {:?}", shown(name), Namespace::DEFAULT);
            Refused::new(Code::NotFound, message)
        })
    }

    fn job(&self) -> Result<JobRef, Refused> {
        let namespace = self.namespace()?;
        let text = self.id.as_deref().unwrap_or_default();
        let id = text.parse().map_err(|e| Refused::new(Code::NotFound, format!("no such job: {e}")))?;
        Ok(JobRef { namespace, id })
    }

    fn step(&self) -> Result<StepIndex, Refused> {
        let text = self.step.as_deref().unwrap_or_default();
        let step = text.parse().map(StepIndex);
        step.map_err(|_| Refused::new(Code::NotFound, format!("no step {}: steps are numbered from 0", shown(text))))
    }
}

fn node(text: Option<&str>) -> Result<NodeId, Refused> {
    text.unwrap_or_default().parse().map_err(|e| Refused::new(Code::NotFound, format!("no such node: {e}")))
}

fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}
