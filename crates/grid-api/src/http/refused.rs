//! Turns refusals, as handlers return them, into answers: the one place where they become bodies.
//!
//! Not here: which status a code has (`grid_types::Code`).
//! Every refusal has `details`, even if they are empty: a script reads them without asking whether they are there.

use std::any::Any;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use grid_controller::{Refusal, Stale};
use grid_proto::Foreign;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_types::api::{ErrorDoc, NotLeaderDoc, Role, RoleDoc, fault_docs};
use grid_types::{Code, Faults};
use serde::Serialize;

/// Faults repeated in the message, for people who read only that.
const MAX_IN_MESSAGE: usize = 5;

/// A refusal on its way out. `stamp` writes its body.
#[derive(Debug, Clone)]
pub struct Refused(Box<Cause>);

#[derive(Debug, Clone)]
struct Cause {
    refusal: Refusal,
    /// The role that caused it, where a role did: by the time of the answer it may be another.
    role: Option<RoleDoc>,
}

/// STALE_EPOCH (409).
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct StaleEpochDoc<'a> {
    error: &'static str,
    message: &'a str,
    stale: &'static str,
    leader_epoch: Option<u64>,
}

impl Refused {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Refusal::new(code, message).into()
    }

    /// A refusal of one part of the request; the empty field is the body as a whole.
    pub fn of_field(code: Code, field: &str, problem: impl Into<String>) -> Self {
        let mut faults = Faults::default();
        faults.add(field, problem);
        Refusal { code, ..Refusal::invalid(faults) }.into()
    }

    /// 400 that names each fault.
    pub fn bad_request(faults: Faults) -> Self {
        Refusal { code: Code::BadRequest, ..Refusal::invalid(faults) }.into()
    }

    pub fn not_leader(role: RoleDoc) -> Self {
        Self::by_role(Refusal::new(Code::NotLeader, ""), role)
    }

    pub fn no_quorum(role: RoleDoc) -> Self {
        let message = format!(
            "{} reaches no majority of the controllers and takes nothing; ask another one, or try again",
            role.node_id
        );
        Self::by_role(Refusal::new(Code::NoQuorum, message), role)
    }

    pub fn stale_leader(role: RoleDoc, given: u64) -> Self {
        let message = format!("the request is for leader epoch {given}, which is not the current one; read /role");
        Self::by_role(Refusal::stale(Stale::Leader, message), role)
    }

    fn by_role(refusal: Refusal, role: RoleDoc) -> Self {
        Self(Box::new(Cause { refusal, role: Some(role) }))
    }

    /// Counts what no well-behaved client sends.
    pub fn count(&self) {
        let kind = match self.0.refusal.code {
            Code::TooLarge => Kind::TooLarge,
            Code::WrongHost => Kind::WrongHost,
            Code::Forbidden => Kind::OtherOrigin,
            _ => return,
        };
        refuse(Port::Api, kind, format_args!("{}", Foreign(&self.0.refusal.message)));
    }

    pub fn role(&self) -> Option<&RoleDoc> {
        self.0.role.as_ref()
    }

    /// Gives `response` the status and the body of this refusal; other headers (`Allow`) stay.
    pub fn write_into(&self, response: &mut Response, role: &RoleDoc) {
        let code = self.0.refusal.code;
        let body = match code {
            Code::NotLeader => serde_json::to_vec(&not_leader_doc(&self.0.refusal, role)),
            Code::StaleEpoch => serde_json::to_vec(&StaleEpochDoc {
                error: code.word(),
                message: &self.0.refusal.message,
                stale: self.0.refusal.stale.unwrap_or(Stale::Leader).word(),
                leader_epoch: role.leader_epoch,
            }),
            _ => serde_json::to_vec(&error_doc(&self.0.refusal)),
        };
        *response.status_mut() = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *response.body_mut() = Body::from(body.unwrap_or_default());
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(Box::new(Cause { refusal, role: None }))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// What a panic in a handler answers. The panic hook has already logged where it was.
#[expect(clippy::needless_pass_by_value, reason = "the signature is tower-http's")]
pub fn panicked(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Refused::new(Code::Internal, format!("a handler panicked: {}", text.unwrap_or("no message"))).into_response()
}

fn not_leader_doc(refusal: &Refusal, role: &RoleDoc) -> NotLeaderDoc {
    // E7: while leadership is handed over nobody is the one to turn to.
    let leader_url = role.leader_url.clone().filter(|_| role.role != Role::Draining);
    let message = match (&leader_url, refusal.message.as_str()) {
        (Some(url), "") => format!("{} is {}; send this to the leader at {url}", role.node_id, role.role.word()),
        (None, "") => format!(
            "{} is {} and hears no leader: without a majority of the controllers nothing can be changed; try again",
            role.node_id,
            role.role.word()
        ),
        (_, given) => given.to_owned(),
    };
    NotLeaderDoc {
        error: Code::NotLeader.word().to_owned(),
        message,
        leader_id: role.leader_id.clone(),
        leader_url,
        leader_epoch: role.leader_epoch,
        node_id: role.node_id.clone(),
        role: role.role,
    }
}

fn error_doc(refusal: &Refusal) -> ErrorDoc {
    let details = fault_docs(&refusal.faults);
    ErrorDoc { error: refusal.code.word().to_owned(), message: message(refusal), details }
}

fn message(refusal: &Refusal) -> String {
    if refusal.code == Code::Internal {
        tracing::error!(cause = %refusal.message, "a request failed inside this controller");
        return "this controller failed to answer and logged why; try again, or ask another controller".to_owned();
    }
    let faults = refusal.faults.list();
    if faults.len() <= MAX_IN_MESSAGE {
        return refusal.message.clone();
    }
    let mut first = Faults::default();
    for fault in &faults[..MAX_IN_MESSAGE] {
        first.add(fault.field.clone(), fault.problem.clone());
    }
    format!("{first}; and {} more", faults.len() - MAX_IN_MESSAGE + refusal.faults.more())
}
