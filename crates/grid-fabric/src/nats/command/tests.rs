use std::collections::BTreeMap;

use grid_proto::v1;
use grid_proto::v1::value::Kind;
use grid_types::decl::{self, EffectClass, ParamType};
use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, NodeOrd, SessionId, StepIndex};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{BadCommand, Command, Encoded, Listener, NotEncoded, decode};

use crate::nats::include::Include;
use crate::offer_many::{Audience, OfferMany, Recipient};

fn encode(many: &OfferMany) -> Result<Encoded, NotEncoded> {
    super::encode(many, "a")
}

fn many(backend: &str, action: &str, params: BTreeMap<String, v1::Value>) -> OfferMany {
    let lease = LeaseKey { job: JobId(7 << 22), job_epoch: JobEpoch(2), step: StepIndex(3), attempt: Attempt(1) };
    OfferMany {
        leader_epoch: 1 << 32 | 17,
        offer: v1::Offer {
            lease: Some(lease.into()),
            backend: backend.to_owned(),
            action: action.to_owned(),
            params,
            effect: v1::EffectClass::Idempotent.into(),
            timeout_ms: 90_000,
            run: 2,
            ..v1::Offer::default()
        },
        recipients: recipients(&[(1, 11), (2, 12), (4, 10)]),
        audience: Audience::All,
    }
}

fn recipients(of: &[(u32, u64)]) -> Vec<Recipient> {
    of.iter().map(|(node, session)| Recipient { node: NodeOrd(*node), session: SessionId(*session) }).collect()
}

fn echo() -> OfferMany {
    many("ping", "echo", BTreeMap::new())
}

fn read(encoded: &Encoded) -> Result<Command, BadCommand> {
    decode(&encoded.subject, &encoded.payload)
}

/// The body of [`echo`] with one field changed; `None` removes it.
fn changed(field: &str, value: Option<Value>) -> Result<Command, BadCommand> {
    let encoded = encode(&echo()).unwrap();
    let mut body: serde_json::Map<String, Value> = serde_json::from_slice(&encoded.payload).unwrap();
    match value {
        Some(value) => body.insert(field.to_owned(), value),
        None => body.remove(field),
    };
    decode(&encoded.subject, &serde_json::to_vec(&body).unwrap())
}

fn value_of(kind: ParamType) -> BoxedStrategy<Kind> {
    match kind {
        ParamType::Text | ParamType::Word { .. } | ParamType::Choice { .. } | ParamType::Mode => {
            any::<String>().prop_map(Kind::Text).boxed()
        }
        ParamType::Integer { .. } => any::<i64>().prop_map(Kind::Integer).boxed(),
        ParamType::Boolean => any::<bool>().prop_map(Kind::Boolean).boxed(),
        ParamType::Duration => (0u64..grid_types::limits::MAX_SPAN_MS).prop_map(Kind::DurationMs).boxed(),
        ParamType::Texts => {
            prop::collection::vec(any::<String>(), 0..4).prop_map(|items| Kind::Texts(v1::Texts { items })).boxed()
        }
        ParamType::Integers { .. } => {
            prop::collection::vec(any::<i64>(), 0..4).prop_map(|items| Kind::Integers(v1::Integers { items })).boxed()
        }
        ParamType::TextMap => prop::collection::btree_map(any::<String>(), any::<String>(), 0..4)
            .prop_map(|items| Kind::TextMap(v1::TextMap { items }))
            .boxed(),
    }
}

/// Any built-in action with any values, whether a job could have them or not.
fn any_offer() -> impl Strategy<Value = OfferMany> {
    let actions: Vec<_> = decl::builtin()
        .iter()
        .flat_map(|backend| backend.actions.iter().map(move |action| (backend.name, action)))
        .collect();
    prop::sample::select(actions).prop_flat_map(|(backend, action)| {
        let values: Vec<_> = action.params.iter().map(|param| prop::option::of(value_of(param.kind))).collect();
        values.prop_map(move |values| {
            let named = action.params.iter().zip(values);
            let params =
                named.filter_map(|(param, kind)| Some((param.name.to_owned(), v1::Value { kind: Some(kind?) })));
            many(backend, action.name, params.collect())
        })
    })
}

proptest! {
    #[test]
    fn every_offer_of_a_built_in_action_is_read_as_it_was_written(many in any_offer()) {
        let encoded = encode(&many).unwrap();
        let command = read(&encoded).unwrap();
        prop_assert_eq!(&command.offer, &many.offer);
        prop_assert_eq!((command.leader_epoch, command.session), (many.leader_epoch, SessionId(12)));
    }

    #[test]
    fn garbage_is_refused_and_breaks_nothing(payload in prop::collection::vec(any::<u8>(), 0..200), subject in ".{0,60}") {
        prop_assert!(decode("cmd.all.ping.echo", &payload).is_err());
        prop_assert!(decode(&subject, &payload).is_err());
    }
}

#[test]
fn every_built_in_action_has_a_subject() {
    for (backend, action) in decl::builtin().iter().flat_map(|b| b.actions.iter().map(move |a| (b, a))) {
        let subject = encode(&many(backend.name, action.name, BTreeMap::new())).unwrap().subject;
        assert_eq!(subject, format!("cmd.all.{}.{}", backend.name, action.name));
    }
}

#[test]
fn the_body_and_the_headers_are_those_of_the_contract() {
    let mut many = many("wait", "port", BTreeMap::new());
    let for_ms = v1::Value { kind: Some(Kind::DurationMs(1_500)) };
    many.offer.params.insert("unheard_of".to_owned(), v1::Value { kind: Some(Kind::Boolean(true)) });
    many.offer.params.insert("every".to_owned(), for_ms);
    let encoded = encode(&many).unwrap();
    let body: Value = serde_json::from_slice(&encoded.payload).unwrap();
    let job = JobId(7 << 22).to_string();
    let expected = json!({
        "cluster_id": "a", "job_id": job, "job_epoch": 2, "leader_epoch": 4_294_967_313_u64, "step": 3, "attempt": 1, "run": 2, "session": 12,
        "include": {"from": 1, "bits": "Cw=="}, "effect": "idempotent",
        "params": {"every": "1500ms", "unheard_of": true}, "timeout": "90s",
    });
    assert_eq!(body, expected);
    let header = |name: &str| encoded.headers.get(name).map(ToString::to_string);
    let expected = [
        ("job-id", job.as_str()),
        ("task-index", "3"),
        ("attempt", "1"),
        ("backend", "wait"),
        ("action", "port"),
        ("job-epoch", "2"),
        ("leader-epoch", "4294967313"),
    ];
    for (name, value) in expected {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn n2_a_group_has_a_subject_of_its_own() {
    let many = OfferMany { audience: Audience::Group("web".parse().unwrap()), ..echo() };
    assert_eq!(encode(&many).unwrap().subject, "cmd.group.web.ping.echo");
}

#[test]
fn n2_only_included_nodes_in_sessions_that_were_meant_are_offered_it() {
    let many = echo();
    let command = read(&encode(&many).unwrap()).unwrap();
    let hears_in = |cluster_id: &str, node, session, leader_epoch| {
        let (cluster_id, node, session) = (cluster_id.to_owned(), NodeOrd(node), SessionId(session));
        command.message_for(&Listener { cluster_id, node, session, leader_epoch })
    };
    let hears = |node, session, leader_epoch| hears_in("a", node, session, leader_epoch);
    let epoch = many.leader_epoch;
    for Recipient { node, session } in &many.recipients {
        let message = hears(node.0, session.0, epoch).expect("it is included");
        assert_eq!(message, many.message_for(*session), "the same as in its own session");
    }
    for (node, session, leader_epoch, why) in [
        (3, 9, epoch, "a node in between that is not included"),
        (0, 9, epoch, "no ordinal was confirmed"),
        (5, 9, epoch, "a node beyond the last"),
        (1, 13, epoch, "a session that began after the decision"),
        (1, 11, epoch + 1, "a message of an earlier leader"),
        (1, 11, epoch - 1, "a session of an earlier leader"),
    ] {
        assert_eq!(hears(node, session, leader_epoch), None, "{why}");
    }
    assert_eq!(hears_in("b", 1, 11, epoch), None, "a session of another cluster on the same account");
}

#[test]
fn a_broadcast_to_nobody_or_without_a_lease_is_not_written() {
    assert_eq!(encode(&OfferMany { recipients: Vec::new(), ..echo() }).err(), Some(NotEncoded::Include));
    let far = recipients(&[(1, 1), (4_000_000, 2)]);
    assert_eq!(encode(&OfferMany { recipients: far, ..echo() }).err(), Some(NotEncoded::Include));
    let bad = |change: fn(&mut v1::Offer)| {
        let mut many = echo();
        change(&mut many.offer);
        encode(&many).err()
    };
    assert_eq!(bad(|offer| offer.lease = None), Some(NotEncoded::Content));
    assert_eq!(bad(|offer| offer.backend = "a.b".to_owned()), Some(NotEncoded::Content));
    assert_eq!(bad(|offer| offer.action = ">".to_owned()), Some(NotEncoded::Content));
    assert_eq!(bad(|offer| drop(offer.params.insert("x".to_owned(), v1::Value::default()))), Some(NotEncoded::Content));
}

#[test]
fn fields_of_a_later_version_are_ignored_and_missing_ones_are_not() {
    assert!(changed("later", Some(json!({"a": [1, 2]}))).is_ok());
    assert_eq!(changed("run", None).unwrap().offer.run, 0);
    for field in [
        "cluster_id",
        "job_id",
        "job_epoch",
        "leader_epoch",
        "step",
        "attempt",
        "session",
        "include",
        "effect",
        "timeout",
    ] {
        assert!(changed(field, None).is_err(), "{field}");
    }
}

#[test]
fn hostile_values_are_refused() {
    for (field, value) in [
        ("job_id", json!(7)),
        ("job_id", json!("job-")),
        ("job_epoch", json!(-1)),
        ("leader_epoch", json!("1")),
        ("step", json!(4_294_967_296_u64)),
        ("attempt", json!(1.5)),
        ("session", json!(null)),
        ("include", json!({"from": 9, "to": 1})),
        ("effect", json!("sometimes")),
        ("timeout", json!("-1s")),
        ("timeout", json!("99999999h")),
        ("params", json!([])),
        ("params", json!({"text": null})),
        ("params", json!({"text": {"a": 1}})),
        ("params", json!({"text": [[1]]})),
        ("params", json!({"x": 1.5})),
        ("params", json!({"x": u64::MAX})),
    ] {
        assert!(changed(field, Some(value.clone())).is_err(), "{field}: {value}");
    }
    let twice = br#"{"job_id":"job-0000000000000","job_id":"job-0000000000001"}"#;
    assert!(decode("cmd.all.ping.echo", twice).is_err());
    assert!(matches!(decode("cmd.node.web-01.ping.echo", b"{}"), Err(BadCommand::Subject)), "its session says it");
}

#[test]
fn the_highest_session_is_that_of_a_recipient() {
    let command = read(&encode(&echo()).unwrap()).unwrap();
    assert_eq!(command.session, SessionId(12));
    assert!(matches!(command.include, Include::Bits { from: 1, .. }));
    assert_eq!(command.offer.effect().class(), EffectClass::Idempotent);
}
