//! A list as a bare array, as the aliases answer it. Where it goes on is in a header, because the array has no place for it.

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use grid_types::api::{HEADER_NEXT, ListDoc};
use serde::Serialize;

pub struct Bare<T>(pub ListDoc<T>);

impl<T: Serialize> IntoResponse for Bare<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0.items).into_response();
        if let Some(next) = self.0.next.and_then(|next| HeaderValue::try_from(next).ok()) {
            response.headers_mut().insert(HEADER_NEXT, next);
        }
        response
    }
}
