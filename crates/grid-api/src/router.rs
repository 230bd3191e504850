//! Builds the table of routes: canonical paths, their aliases, and the guards of each.
//!
//! E4: every mutation has the guard of its role here. Guards are attached to the method, not to the path, so
//! that a wrong method is 405 on a standby too.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post};
use grid_controller::Control;
use tower_http::catch_panic::CatchPanicLayer;

use crate::document;
use crate::http::{browser, consistency, guard, refused};
use crate::routes::{agents, backends, backup, cluster, decisions, events, introspect, jobs, logs, nodes, results};

/// The whole API over `control`.
pub fn router<C: Control>(control: C) -> Router {
    let jobs = "/api/v1/namespaces/{ns}/jobs";
    let of_job = |rest: &str| format!("{jobs}/{{id}}{rest}");
    let guards = Guards { control: control.clone() };
    let read = |route| guards.read(route);
    let large = |route: MethodRouter<C>| guards.read(route.route_layer(from_fn(guard::bounded)));
    let submit = || guards.leader(post(jobs::submit::<C>));
    let cancel = || guards.leader_or_draining(post(jobs::cancel::<C>));
    let confirm = || guards.leader(post(decisions::confirm::<C>));
    let resume = || guards.leader(post(decisions::resume::<C>));
    let retry = || guards.leader(post(decisions::retry::<C>));
    let drain = || guards.leader(post(nodes::drain::<C>));
    let undrain = || guards.leader(post(nodes::undrain::<C>));
    let remove = || guards.leader(delete(nodes::remove::<C>));
    let resolve = || guards.leader(post(decisions::resolve::<C>));

    // Only the leader hears the workers, who have the outputs.
    let logs = || guards.leader(get(logs::logs::<C>)).merge(guards.leader(post(logs::logs_from::<C>)));

    let canonical = Router::new()
        .route(jobs, submit().merge(large(get(jobs::list::<C>))))
        .route(&format!("{jobs}/plan"), large(post(jobs::plan::<C>)))
        .route(&of_job(""), large(get(jobs::get::<C>)))
        .route(&of_job("/cancel"), cancel())
        .route(&of_job("/confirm"), confirm())
        .route(&of_job("/resume"), resume())
        .route(&of_job("/retry"), retry())
        .route(&of_job("/resolve"), resolve())
        .route(&of_job("/runs"), large(get(jobs::runs::<C>)))
        .route(&of_job("/why"), large(get(jobs::why::<C>)))
        .route(&of_job("/results"), large(get(results::rows::<C>)))
        .route(&of_job("/output/{step}/{node}"), read(get(logs::output::<C>)))
        .route(&of_job("/logs"), logs())
        .route(&of_job("/outputs/{step}"), large(get(results::outputs::<C>)))
        .route("/api/v1/events", read(get(events::events::<C>)))
        .route("/api/v1/backends", read(get(backends::list)))
        .route("/api/v1/backends/{id}", read(get(backends::get)))
        .route("/api/v1/cluster/backup", read(get(backup::backup::<C>)))
        .route("/api/v1/nodes", large(get(nodes::list::<C>)))
        .route("/api/v1/nodes/{id}", remove().merge(large(get(nodes::get::<C>))))
        .route("/api/v1/nodes/{id}/drain", drain())
        .route("/api/v1/nodes/{id}/undrain", undrain());

    let aliases = Router::new()
        .route("/job", submit())
        .route("/job/plan", large(post(jobs::plan::<C>)))
        .route("/job/{id}", large(get(jobs::get::<C>)))
        .route("/job/{id}/cancel", cancel())
        .route("/job/{id}/confirm", confirm())
        .route("/job/{id}/resume", resume())
        .route("/job/{id}/retry", retry())
        .route("/job/{id}/resolve", resolve())
        .route("/job/{id}/runs", large(get(jobs::runs::<C>)))
        .route("/job/{id}/why", large(get(jobs::why::<C>)))
        .route("/job/{id}/results", large(get(results::rows::<C>)))
        .route("/job/{id}/output/{step}/{node}", read(get(logs::output::<C>)))
        .route("/job/{id}/logs", logs())
        .route("/job/{id}/outputs/{step}", large(get(results::outputs::<C>)))
        .route("/jobs", large(get(jobs::list_bare::<C>)))
        .route("/nodes", large(get(nodes::list_bare::<C>)))
        .route("/node/{id}", remove().merge(large(get(nodes::get_alias::<C>))))
        .route("/node/{id}/drain", drain())
        .route("/node/{id}/undrain", undrain())
        .route("/v1/jobs", submit().merge(large(get(jobs::list_bare::<C>))))
        .route("/v1/jobs/{id}", large(get(jobs::get::<C>)))
        .route("/v1/events", read(get(events::events::<C>)))
        .route("/v1/leases", guards.leader(post(agents::leases::<C>)))
        .route("/v1/results", guards.leader_or_draining(post(agents::results::<C>)))
        .route("/v1/agents", large(get(nodes::list_bare::<C>)))
        .route("/v1/agents/{id}", remove().merge(large(get(nodes::get_alias::<C>))));

    let members = "/api/v1/cluster/members";
    let of_member = |rest: &str| format!("{members}/{{id}}{rest}");
    let controllers = Router::new()
        .route("/controllers", read(get(cluster::controllers::<C>)))
        .route("/api/v1/controllers", read(get(cluster::controllers::<C>)))
        .route("/api/v1/cluster", read(get(cluster::status::<C>)))
        .route(members, guards.leader(post(cluster::join::<C>)))
        .route(&of_member(""), guards.leader(delete(cluster::remove::<C>)))
        .route(&of_member("/promote"), guards.leader(post(cluster::promote::<C>)))
        .route(&of_member("/demote"), guards.leader(post(cluster::demote::<C>)))
        .route("/api/v1/cluster/lift", guards.leader(post(cluster::lift::<C>)))
        .route("/api/v1/cluster/step-down", guards.leader(post(cluster::step_down::<C>)));

    let open = Router::new()
        .route("/openapi.json", get(document::openapi))
        .route("/role", get(introspect::role::<C>))
        .route("/status", get(introspect::status::<C>).route_layer(from_fn(guard::bounded)))
        .route("/healthz", get(introspect::health))
        .route("/health", get(introspect::health))
        .route("/readyz", get(introspect::ready::<C>))
        .route("/ready", get(introspect::ready::<C>));

    canonical
        .merge(aliases)
        .merge(controllers)
        .merge(open)
        .fallback(introspect::unknown_path)
        .method_not_allowed_fallback(introspect::wrong_method)
        .layer(CatchPanicLayer::custom(refused::panicked))
        .layer(from_fn(browser::admit))
        .layer(from_fn_with_state(control.clone(), guard::stamp::<C>))
        .with_state(control)
}

/// Attaches guards. The last layer added runs first: role, then epoch, then consistency.
struct Guards<C> {
    control: C,
}

impl<C: Control> Guards<C> {
    fn read(&self, route: MethodRouter<C>) -> MethodRouter<C> {
        self.fenced(route.route_layer(from_fn_with_state(self.control.clone(), consistency::wait::<C>)))
    }

    fn fenced(&self, route: MethodRouter<C>) -> MethodRouter<C> {
        route.route_layer(from_fn_with_state(self.control.clone(), guard::fence::<C>))
    }

    fn leader(&self, route: MethodRouter<C>) -> MethodRouter<C> {
        self.fenced(route).route_layer(from_fn_with_state(self.control.clone(), guard::leader::<C>))
    }

    fn leader_or_draining(&self, route: MethodRouter<C>) -> MethodRouter<C> {
        self.fenced(route).route_layer(from_fn_with_state(self.control.clone(), guard::leader_or_draining::<C>))
    }
}
