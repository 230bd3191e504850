use std::sync::Arc;

use grid_fabric::{CloseReason, Credential, FabricRefusal, Hub, Outbox, Peer};
use grid_proto::refusals::Port;
use grid_proto::v1;
use grid_types::{Code, LeaderEpoch};
use serde_json::json;

use super::FabricHub;
use crate::control::{Caller, Cluster, Jobs, Submission};
use crate::controller::Controller;
use crate::leadership::superseded::is_believed;
use crate::life::{opening, started};

pub(super) struct Bench {
    pub controller: Controller,
    pub hub: FabricHub,
    _dir: tempfile::TempDir,
}

impl Bench {
    pub async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let controller = started(opening(&dir.path().join("data"), "c1", true)).await.unwrap();
        let hub = FabricHub::new(Arc::clone(&controller.shared));
        Self { controller, hub, _dir: dir }
    }

    /// A worker of this cluster that has obeyed a leader of `generation` registers.
    async fn register(&self, node_id: &str, generation: u32) -> FabricRefusal {
        self.register_from(node_id, LeaderEpoch { generation, n: 1 }).await
    }

    async fn register_from(&self, node_id: &str, epoch: LeaderEpoch) -> FabricRefusal {
        let request = v1::RegisterNodeRequest {
            node_id: node_id.to_owned(),
            cluster_id: self.controller.shared.state().meta.cluster_id.clone(),
            leader_epoch: epoch.wire(),
            ..Default::default()
        };
        self.hub.register(request, Peer::Connection(None)).await.expect_err("it is refused")
    }

    fn superseded(&self) -> Option<u32> {
        self.controller.shared.state().meta.superseded.as_ref().map(|superseded| superseded.generation)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_worker_that_shows_a_lifted_generation_again_is_refused_and_supersedes_nothing() {
    let bench = Bench::start().await;
    let refused = bench.register("web-01", 2).await;
    assert_eq!((refused.code, bench.superseded()), (Code::Superseded, Some(2)));
    assert!(!refused.message.contains("--reset-journal"), "{}", refused.message);
    assert!(bench.controller.lift_superseded(&Caller::local()).await.is_ok());
    // Its leaders change, and their epochs rise.
    let refused = bench.register_from("web-01", LeaderEpoch { generation: 2, n: 9 }).await;
    assert_eq!((refused.code, bench.superseded()), (Code::Superseded, None));
    assert!(refused.message.contains("--reset-journal"), "{}", refused.message);
    bench.register("web-01", 3).await;
    assert_eq!(bench.superseded(), Some(3));
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_registration_without_a_valid_node_id_supersedes_nothing() {
    let bench = Bench::start().await;
    for id in ["", "two words", &"x".repeat(1 << 20)] {
        let refused = bench.register(id, 2).await;
        assert_eq!((refused.code, bench.superseded()), (Code::Invalid, None));
    }
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_when_a_node_was_last_heard_stays_known_after_the_cluster_was_superseded() {
    let bench = Bench::start().await;
    let shared = &bench.controller.shared;
    let (node, session) = (grid_types::NodeOrd(7), grid_types::SessionId(1));
    shared.lead(|leader, now| leader.on_registered(now, node, session).1);
    let heard = || shared.look(|leader, _| leader.heard_wall_ms(node)).flatten();
    let before = heard();
    bench.register("web-01", 2).await;
    assert_eq!(bench.superseded(), Some(2));
    assert!(before.is_some() && heard() == before, "nobody else of this cluster hears it");
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn issue14_1_a_generation_that_no_restores_explain_supersedes_nothing() {
    let bench = Bench::start().await;
    for generation in [u32::MAX, 1_000_000, 1 + grid_raft::GENERATION_STEP + 1] {
        let refused = bench.register("web-01", generation).await;
        assert_eq!((refused.code, bench.superseded()), (Code::Superseded, None), "{generation}");
    }
    assert!(grid_proto::refusals::counts()["grpc"]["generation_too_high"] >= 3);
    bench.register("web-01", 2).await;
    assert_eq!(bench.superseded(), Some(2), "a real one is still believed");
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn issue14_1_an_epoch_of_the_own_generation_whose_time_is_not_reached_supersedes_nothing() {
    let bench = Bench::start().await;
    let shared = &bench.controller.shared;
    let now = grid_core::first_n(shared.clock.wall_ms());
    // As after a restore; nothing is proposed in this state.
    shared.log.state.write().unwrap().meta.leadership.epoch = LeaderEpoch { generation: 1, n: 7 };
    for n in [u32::MAX, now + 2 * 24 * 3_600] {
        let refused = bench.register_from("web-01", LeaderEpoch { generation: 1, n }).await;
        assert_eq!((refused.code, bench.superseded()), (Code::Superseded, None), "{n}");
        assert!(!is_believed(shared, Port::Grpc, LeaderEpoch { generation: 1, n }), "{n}");
    }
    assert!(is_believed(shared, Port::Grpc, LeaderEpoch { generation: 1, n: now }));
    bench.controller.shutdown().await;
}

/// The clock of this controller is years behind: bounded by it, the cluster was never superseded.
#[tokio::test(flavor = "multi_thread")]
async fn e2_a_higher_generation_supersedes_whatever_its_time() {
    let bench = Bench::start().await;
    let now = grid_core::first_n(bench.controller.shared.clock.wall_ms());
    bench.register_from("web-01", LeaderEpoch { generation: 1, n: now + 2 * 365 * 24 * 3_600 }).await;
    assert_eq!(bench.superseded(), Some(1));
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n4_a_session_counts_on_the_subjects_of_its_node_only() {
    let bench = Bench::start().await;
    let own = Peer::Subject("fuzzed".parse().unwrap());
    let reply = bench.hub.register(super::fuzz::registration(), own.clone()).await.unwrap();
    let credential = Credential::of(&reply);
    for other in ["web-01", "fuzze", "fuzzed-2"] {
        let other = Peer::Subject(other.parse().unwrap());
        let refused = bench.hub.opened(&credential, other.clone(), Outbox::new()).expect_err("the secret leaked");
        assert_eq!(CloseReason::of(&refused), Some(CloseReason::StaleSession));
        assert!(bench.hub.log_sender(&credential, &other).is_err());
    }
    assert!(bench.hub.log_sender(&credential, &own).is_ok());
    assert!(bench.hub.opened(&credential, own, Outbox::new()).is_ok());
    bench.controller.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n8_a_job_with_an_offer_that_does_not_fit_is_refused_at_submit() {
    let bench = Bench::start().await;
    let job = |bytes: usize| {
        let tasks = json!([{"backend": "ping", "action": "echo", "params": {"message": "x".repeat(bytes)}}]);
        let spec = grid_types::job::parse_job(&json!({"target": "all", "tasks": tasks})).unwrap();
        Submission { spec, key: None, plan: None }
    };
    let namespace = "default".parse::<grid_types::Name>().unwrap().into();
    let caller = Caller::local();
    let submit = |bytes| bench.controller.submit(&caller, &namespace, job(bytes));
    bench.hub.broker_carries(64 << 10);
    let refused = submit(63 << 10).await.expect_err("it is too large");
    assert_eq!(refused.code, Code::TooLarge);
    assert!(refused.message.contains("step 0 (ping echo)") && refused.message.contains("max_payload"), "{refused:?}");
    // There is no node: refused for that reason.
    assert_ne!(submit(50 << 10).await.expect_err("no target").code, Code::TooLarge);
    bench.controller.shutdown().await;
}
