//! Attacks on the workers' port by a client that is not a worker, and by a compromised worker.

use grid_testkit::Dice;
use grid_testkit::http2::call;

use crate::Attack;
use crate::target::Target;
use crate::wire::{Connection, Fields, Message};

pub const ATTACKS: &[Attack] = &[
    ("worker: a guessed session", guessed_session),
    ("worker: leave and drain", leave_and_drain),
    ("worker: a duplicate of a real node", duplicate),
    ("worker: a node gone bad", gone_bad),
    ("worker: dense messages", dense),
    ("worker: endless facts", endless_facts),
    ("worker: logs", logs),
    ("worker: noise", noise),
];

/// Nodes that attackers register; a bounded set, since every client that reaches the port may register.
const NODES: u64 = 40;
/// Leases that one message invents.
const INVENTED: u64 = 20_000;

fn method(name: &str) -> String {
    format!("/grid.worker.v1.Fabric/{name}")
}

fn facts() -> Message {
    let backend = Message::new().bytes(1, "ping").bytes(2, "echo");
    let capacity = Message::new().uint(4, 1);
    Message::new().bytes(1, "host").bytes(3, "hostile").message(5, &backend).bytes(6, "linux").message(8, &capacity)
}

fn registration(node: &str, facts: &Message, dice: &mut Dice) -> Message {
    let random = |dice: &mut Dice| [dice.number().to_le_bytes(), dice.number().to_le_bytes()].concat();
    Message::new()
        .bytes(1, node)
        .message(2, facts)
        .bytes(3, random(dice))
        .uint(4, 1 + dice.roll(1 << 40))
        .bytes(5, random(dice))
}

fn lease(dice: &mut Dice) -> Message {
    let epoch = 1 + dice.roll(3);
    Message::new().fixed(1, dice.roll(100_000)).uint(2, epoch).uint(3, dice.roll(4)).uint(4, 1 + dice.roll(2))
}

fn from_worker(session: u64, epoch: u64, secret: Option<&[u8]>) -> Message {
    let message = Message::new().uint(1, session).uint(2, epoch);
    match secret {
        Some(secret) => message.bytes(SECRET_IN_MESSAGE, secret),
        None => message,
    }
}

/// Where the secret of a session is in the reply to a registration and in the messages of its stream.
const SECRET_IN_REPLY: u64 = 8;
const SECRET_IN_MESSAGE: u64 = 10;

/// What a compromised node reports about leases that it invents.
fn lies(message: Message, dice: &mut Dice) -> Message {
    let mut message = message.message(3, &Message::new().uint(1, dice.number()).uint(2, dice.roll(1 << 32)));
    for _ in 0..dice.roll(INVENTED) {
        let lease = lease(dice);
        message = match dice.roll(5) {
            0 => message.message(4, &Message::new().message(1, &lease).uint(2, 1 + dice.roll(6)).bytes(3, "forged")),
            1 => message.message(5, &Message::new().message(1, &lease).uint(2, dice.roll(7))),
            2 => message.message(8, &Message::new().message(1, &lease).uint(2, dice.number())),
            _ => message.message(7, &lease),
        };
    }
    let held = (0..dice.roll(2_000)).fold(Message::new(), |held, _| held.message(1, &lease(dice)));
    message.message(6, &held)
}

fn guessed_session(target: &Target, dice: &mut Dice) {
    let Ok(mut connection) = Connection::open(target.grpc) else { return };
    let (session, epoch) = (1 + dice.roll(60), dice.roll(4));
    let _ = connection.write(&call(1, &method("Heartbeat")));
    let secret = Message::new().bytes(1, [7; 16]);
    let message = from_worker(session, epoch, (dice.roll(2) == 0).then_some(&secret.0));
    let message = if dice.roll(2) == 0 { lies(message, dice) } else { message.message(3, &Message::new()) };
    let _ = connection.data(1, &message.framed(), false);
    if let Some(answer) = connection.answer() {
        let answer = Fields::read(&answer);
        assert!(answer.bytes(2).is_none(), "an offer for a guessed session");
    }
}

fn leave_and_drain(target: &Target, dice: &mut Dice) {
    let name = *dice.pick(&["LeaveNode", "DrainNode"]);
    let body = Message::new().bytes(1, dice.pick(&target.nodes)).uint(2, 1 + dice.roll(20)).uint(3, dice.roll(2));
    Connection::unary(target.grpc, &method(name), &body);
}

fn duplicate(target: &Target, dice: &mut Dice) {
    let node = dice.pick(&target.nodes);
    let body = registration(node, &facts(), dice);
    let reply = Connection::unary(target.grpc, &method("RegisterNode"), &body);
    let session = reply.and_then(|reply| Fields::read(&reply).number(1));
    assert_eq!(session, None, "a second node of the same name was registered while the first one lives");
}

fn gone_bad(target: &Target, dice: &mut Dice) {
    let node = format!("bad-{}", dice.roll(NODES));
    let reply = Connection::unary(target.grpc, &method("RegisterNode"), &registration(&node, &facts(), dice));
    let Some(reply) = reply else { return };
    let reply = Fields::read(&reply);
    let (session, epoch) = (reply.number(1).unwrap_or(0), reply.number(3).unwrap_or(0));
    let secret = reply.bytes(SECRET_IN_REPLY).map(<[u8]>::to_vec);
    let Ok(mut connection) = Connection::open(target.grpc) else { return };
    let _ = connection.write(&call(1, &method("Heartbeat")));
    for i in 0..3 {
        let secret = secret.as_deref().filter(|_| i == 0 || dice.roll(8) == 0);
        let message = lies(from_worker(session, epoch, secret), dice);
        if connection.data(1, &message.framed(), false).is_err() {
            return;
        }
        connection.answer();
    }
}

/// As many empty elements as a message can have, in a separate list or in an element of a list: two bytes on the wire, far
/// more in memory.
fn dense(target: &Target, dice: &mut Dice) {
    let Ok(mut connection) = Connection::open(target.grpc) else { return };
    let (name, bytes, outer): (_, usize, &[&[u64]]) = match dice.roll(2) {
        0 => ("Heartbeat", 4_000_000, &[&[], &[6], &[9], &[9, 3], &[9, 3, 3]]),
        _ => ("RegisterNode", 2_000_000, &[&[], &[2], &[2, 5]]),
    };
    let field = *dice.pick(&[1, 2, 3, 4, 5, 7, 8, 9]);
    let elements = Message([u8::try_from(field << 3 | 2).expect("small"), 0].repeat(bytes / 2));
    let message = dice.pick(outer).iter().rev().fold(elements, |inner, field| Message::new().message(*field, &inner));
    let _ = connection.write(&call(1, &method(name)));
    let _ = connection.data(1, &message.framed(), false);
    connection.answer();
}

fn endless_facts(target: &Target, dice: &mut Dice) {
    let mut facts = facts();
    for i in 0..dice.roll(4_000) {
        let backend = Message::new().bytes(1, format!("invented-{i}")).bytes(2, "x".repeat(60));
        facts = match dice.roll(3) {
            0 => facts.message(5, &backend),
            1 => facts.bytes(3, format!("group-{i}")),
            _ => facts.message(4, &Message::new().bytes(1, format!("k{i}")).bytes(2, "v".repeat(60))),
        };
    }
    let name = if dice.roll(3) == 0 { "n\n".repeat(1 << dice.roll(20)) } else { format!("fat-{}", dice.roll(NODES)) };
    Connection::unary(target.grpc, &method("RegisterNode"), &registration(&name, &facts, dice));
}

fn logs(target: &Target, dice: &mut Dice) {
    let Ok(mut connection) = Connection::open(target.grpc) else { return };
    let _ = connection.write(&call(1, &method("StreamLogs")));
    for _ in 0..dice.roll(10) {
        let id = format!("{:x}", dice.number());
        let chunk = Message::new().bytes(1, id).uint(2, dice.number()).bytes(3, vec![b'x'; 200 << 10]);
        if connection.data(1, &chunk.framed(), false).is_err() {
            return;
        }
    }
    connection.answer();
}

fn noise(target: &Target, dice: &mut Dice) {
    let bytes: Vec<u8> = (0..dice.roll(3_000)).map(|_| dice.number().to_le_bytes()[0]).collect();
    let name = *dice.pick(&["RegisterNode", "Heartbeat", "StreamLogs", "LeaveNode", "DrainNode"]);
    Connection::unary(target.grpc, &method(name), &Message(bytes));
}
