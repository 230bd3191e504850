//! Attacks on the Raft port by a sender that is not a controller of the cluster.

use std::net::TcpStream;

use grid_testkit::Dice;
use grid_testkit::http2::{END_HEADERS, HEADERS, PING, call, call_with, frame, hello};

use crate::Attack;
use crate::target::Target;
use crate::wire::{Connection, Message, base64};

pub const ATTACKS: &[Attack] = &[
    ("peer: votes", votes),
    ("peer: appends", appends),
    ("peer: a snapshot", snapshot),
    ("peer: questions", questions),
    ("peer: announcements", announcements),
    ("peer: endless names", endless_names),
    ("peer: noise", noise),
    ("peer: silent sockets", silent_sockets),
    ("peer: streams", streams),
];

/// Numbers at which arithmetic fails, and ones that are believed too easily.
const NUMBERS: [u64; 10] = [0, 1, 2, 50, 1 << 20, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];

fn method(name: &str) -> String {
    format!("/grid.peer.v1.Peer/{name}")
}

fn any(dice: &mut Dice) -> u64 {
    *dice.pick(&NUMBERS)
}

/// A sender: invented, or with every value that the API shows.
fn sender(target: &Target, dice: &mut Dice) -> Message {
    let cluster = if dice.roll(4) == 0 { "0".repeat(32) } else { target.cluster_id.clone() };
    let member = *dice.pick(&target.raft_ids);
    let id = if dice.roll(2) == 0 { any(dice) } else { member };
    let folder = match dice.roll(3) {
        0 => String::new(),
        1 => format!("{:032x}", dice.number()),
        _ => "\n2026-01-01T00:00:00Z ERROR forged".to_owned(),
    };
    let to = if dice.roll(4) == 0 { any(dice) } else { target.raft_ids[0] };
    let generation = *dice.pick(&[0, 1, 2, u64::from(u32::MAX)]);
    let sender = Message::new().bytes(1, cluster).uint(2, id).bytes(3, folder).uint(4, to).uint(5, generation);
    sender.bytes(6, format!("{:032x}", dice.number())).uint(7, any(dice))
}

/// The header in which members identify themselves.
const SENDER: &str = "grid-sender-bin";

fn unary(target: &Target, name: &str, sender: &Message, message: &Message) -> Option<Vec<u8>> {
    Connection::unary_with(target.raft, &method(name), &[(SENDER, &base64(&sender.0))], message)
}

fn log_id(dice: &mut Dice) -> Message {
    Message::new().uint(1, any(dice)).uint(2, any(dice))
}

fn ballot(target: &Target, dice: &mut Dice) -> Message {
    let ballot = Message::new().uint(1, any(dice));
    let ballot = match dice.roll(3) {
        0 => ballot,
        1 => ballot.uint(2, any(dice)),
        _ => ballot.uint(2, *dice.pick(&target.raft_ids)),
    };
    ballot.uint(3, dice.roll(2))
}

fn votes(target: &Target, dice: &mut Dice) {
    let vote = Message::new().message(2, &ballot(target, dice)).message(3, &log_id(dice));
    let granted = unary(target, "Vote", &sender(target, dice), &vote);
    assert_eq!(granted, None, "a vote for an unknown sender");
}

fn appends(target: &Target, dice: &mut Dice) {
    let mut append = Message::new().message(2, &ballot(target, dice)).message(3, &log_id(dice));
    for _ in 0..dice.roll(20) {
        let content: Vec<u8> = (0..dice.roll(2_000)).map(|_| dice.number().to_le_bytes()[0]).collect();
        let entry = Message::new().message(1, &log_id(dice)).uint(2, dice.roll(5)).bytes(3, content);
        append = append.message(4, &entry);
    }
    let append = append.message(5, &log_id(dice));
    let accepted = unary(target, "Append", &sender(target, dice), &append);
    assert_eq!(accepted, None, "entries of an unknown sender");
}

fn snapshot(target: &Target, dice: &mut Dice) {
    let header = Message::new()
        .message(2, &ballot(target, dice))
        .message(3, &log_id(dice))
        .bytes(4, dice.number().to_le_bytes())
        .bytes(5, "../../../../tmp/planted");
    let Ok(mut connection) = Connection::open(target.raft) else { return };
    let shown = base64(&sender(target, dice).0);
    let _ = connection.write(&call_with(1, &method("Snapshot"), &[(SENDER, &shown)]));
    let _ = connection.data(1, &Message::new().message(1, &header).framed(), false);
    for _ in 0..dice.roll(8) {
        if connection.data(1, &Message::new().bytes(2, vec![7; 256 << 10]).framed(), false).is_err() {
            return;
        }
    }
    connection.answer();
}

fn questions(target: &Target, dice: &mut Dice) {
    let name = dice.pick(&["Probe", "ReadIndex", "Elect", "Dance"]);
    unary(target, name, &sender(target, dice), &Message::new());
}

fn announcements(target: &Target, dice: &mut Dice) {
    let member: Vec<u8> = (0..dice.roll(4_000)).map(|_| dice.number().to_le_bytes()[0]).collect();
    let announce = Message::new().bytes(2, member).uint(3, 1);
    unary(target, "Announce", &sender(target, dice), &announce);
}

/// Names of up to 8 MiB, which must neither be kept nor logged.
fn endless_names(target: &Target, dice: &mut Dice) {
    let long = "x\n".repeat(1 << (10 + dice.roll(13)));
    let sender = Message::new().bytes(1, &long).uint(2, 7).bytes(3, &long).uint(4, target.raft_ids[0]);
    let name = *dice.pick(&["Vote", "Append", "Probe", "Announce", "Elect", "ReadIndex"]);
    // In the header, where it belongs, and in the body, where it was.
    unary(target, name, &sender, &Message::new());
    Connection::unary(target.raft, &method(name), &Message::new().message(1, &sender));
}

fn noise(target: &Target, dice: &mut Dice) {
    let bytes: Vec<u8> = (0..dice.roll(3_000)).map(|_| dice.number().to_le_bytes()[0]).collect();
    let name = *dice.pick(&["Vote", "Append", "Snapshot", "Probe", "Announce"]);
    unary(target, name, &sender(target, dice), &Message(bytes));
}

fn silent_sockets(target: &Target, dice: &mut Dice) {
    use std::io::Write;
    let mut sockets: Vec<TcpStream> =
        (0..dice.roll(40)).filter_map(|_| TcpStream::connect(("127.0.0.1", target.raft)).ok()).collect();
    for socket in &mut sockets {
        let start = hello();
        let part = usize::try_from(dice.roll(start.len() as u64)).expect("small");
        let _ = socket.write_all(&start[..part]);
    }
}

fn streams(target: &Target, dice: &mut Dice) {
    let Ok(mut connection) = Connection::open(target.raft) else { return };
    for i in 0..u32::try_from(dice.roll(2_000)).expect("small") {
        let bytes = match dice.roll(4) {
            0 => frame(PING, 0, 0, &[0; 8]),
            1 => frame(HEADERS, END_HEADERS, 2 * i + 1, &[0xff; 40]),
            _ => call(2 * i + 1, &method("Snapshot")),
        };
        if connection.write(&bytes).is_err() {
            return;
        }
    }
}
