//! Who sent a request, as far as its connection and headers show, and the controller that serves it.
//!
//! Not here: whether they may do what they ask (`grid_controller::Caller::permit`), `leader_epoch` inside a body (`body`).

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use grid_controller::{Caller, Introspect};

use crate::http::browser::Reached;
use crate::http::guard::GivenEpoch;

/// A request's controller and caller. E9: with the leader epoch that its header names, which `guard::fence` has checked.
pub struct Asked<C> {
    pub control: C,
    pub caller: Caller,
}

impl<C: Introspect> FromRequestParts<C> for Asked<C> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, control: &C) -> Result<Self, Infallible> {
        let address = parts.extensions.get::<Reached>().and_then(|reached| reached.from);
        let epoch = parts.extensions.get::<GivenEpoch>().and_then(|given| given.0);
        Ok(Self { control: control.clone(), caller: Caller::anonymous(address).under(epoch) })
    }
}
