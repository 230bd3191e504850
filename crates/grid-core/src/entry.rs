//! Entries of the replicated log and their encoding.
//!
//! ```text
//!   'G' version | head (CBOR) | command (CBOR) | command (CBOR) | …
//! ```
//!
//! Commands are encoded one by one, so that the proposer can measure what it merges (L1) and encode it only once.
//! CBOR with numbered fields: a later version may add optional fields and commands, never reuse a number. A command
//! this version does not know is an error, and the replica halts on it rather than diverge (L2).

use grid_types::LeaderEpoch;
use minicbor::{Decode, Decoder, Encode};

use crate::commands::{Command, level_of_command};
use crate::encoding::to_vec;
use crate::levels::{BadLevel, FEATURE_LEVEL, check_level};

const MAGIC: u8 = b'G';
const VERSION: u8 = 1;

/// What a leader stamps on everything it proposes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EntryHead {
    /// The leader epoch under which it counts (E1).
    #[n(0)]
    pub epoch: LeaderEpoch,
    /// The Raft term (E1).
    #[n(1)]
    pub term: u64,
    /// Leader time, monotonic across terms (W6).
    #[n(2)]
    pub now_ms: u64,
    /// For display and cron only.
    #[n(3)]
    pub wall_ms: u64,
    /// How many commands follow.
    #[n(4)]
    pub commands: u32,
}

/// One entry of the replicated log: commands that were proposed together.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Who proposed it, and when.
    pub head: EntryHead,
    /// What it asks for, in order.
    pub commands: Vec<Command>,
}

/// Why the bytes of an entry are refused. A replica halts on it (L2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// The first bytes are those of no entry.
    #[error("not an entry of grid: it begins with {0:?}")]
    Foreign(Vec<u8>),
    /// The encoding is of a newer version.
    #[error("entry has version {0}, this binary knows up to {VERSION}: start a newer grid on this folder")]
    Newer(u8),
    /// The command was added at a higher feature level.
    #[error(
        "command {number} is not known to this grid (feature level {level}): a newer one wrote it; start that grid, or a newer \
         one, on this folder"
    )]
    UnknownCommand {
        /// The number of the command.
        number: u32,
        /// The feature level that this program reads.
        level: u32,
    },
    /// The entry brings a feature level that this program does not know.
    #[error(transparent)]
    Level(#[from] BadLevel),
    /// The bytes end too early, or a field has no meaning.
    #[error(
        "entry cannot be read ({0}): it was written by a newer grid, or is damaged; start a newer grid on this folder"
    )]
    Unreadable(String),
}

/// # Panics
/// Never: writing to memory cannot fail.
#[must_use]
pub fn encode_command(command: &Command) -> Vec<u8> {
    to_vec(command)
}

/// The bytes of an entry, made of commands that are encoded already.
#[must_use]
pub fn encode_entry<'a, C>(head: EntryHead, commands: C) -> Vec<u8>
where
    C: IntoIterator<Item = &'a Vec<u8>>,
    C::IntoIter: Clone,
{
    let (head, commands) = (to_vec(&head), commands.into_iter());
    // Exact: the log keeps entries as they are, with whatever room was allocated.
    let mut bytes = Vec::with_capacity(2 + head.len() + commands.clone().map(Vec::len).sum::<usize>());
    bytes.extend([MAGIC, VERSION]);
    bytes.extend(head);
    for command in commands {
        bytes.extend_from_slice(command);
    }
    bytes
}

/// Whatever its level: what an entry of an older program says can still be shown.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, BadEntry> {
    decode(bytes, FEATURE_LEVEL)
}

/// As a replica that knows levels up to `level` reads it, before it applies it (L2).
pub fn decode_entry_at(bytes: &[u8], level: u32) -> Result<Entry, BadEntry> {
    let entry = decode(bytes, level)?;
    for command in &entry.commands {
        match command {
            Command::BeginTerm(begin) => check_level(begin.feature_level, level)?,
            Command::RaiseFeatureLevel(raise) => check_level(raise.level, level)?,
            _ => {}
        }
    }
    Ok(entry)
}

fn decode(bytes: &[u8], level: u32) -> Result<Entry, BadEntry> {
    let body = match bytes {
        [MAGIC, VERSION, body @ ..] => body,
        [MAGIC, version, ..] => return Err(BadEntry::Newer(*version)),
        other => return Err(BadEntry::Foreign(other.iter().take(8).copied().collect())),
    };
    let unreadable = |e: minicbor::decode::Error| BadEntry::Unreadable(e.to_string());
    let mut decoder = Decoder::new(body);
    let head: EntryHead = decoder.decode().map_err(unreadable)?;
    let mut commands = Vec::with_capacity(usize::try_from(head.commands).unwrap_or(0).min(4_096));
    for _ in 0..head.commands {
        let number = number_at(&decoder).map_err(unreadable)?;
        if level_of_command(number).is_none_or(|since| since > level) {
            return Err(BadEntry::UnknownCommand { number, level });
        }
        commands.push(decoder.decode().map_err(unreadable)?);
    }
    if decoder.position() != body.len() {
        return Err(BadEntry::Unreadable("bytes left over".to_owned()));
    }
    Ok(Entry { head, commands })
}

/// The number of an encoded command.
#[must_use]
pub fn command_number(encoded: &[u8]) -> Option<u32> {
    number_at(&Decoder::new(encoded)).ok()
}

/// A command is an array of its number and its fields.
fn number_at(decoder: &Decoder<'_>) -> Result<u32, minicbor::decode::Error> {
    let mut probe = decoder.clone();
    probe.array()?;
    probe.u32()
}

#[cfg(test)]
mod tests {
    use super::{BadEntry, Entry, EntryHead, decode_entry, decode_entry_at, encode_command, encode_entry};
    use crate::FEATURE_LEVEL;
    use crate::commands::{Command, FireTimers, LAST_COMMAND, RaiseFeatureLevel, level_of_command};
    use crate::levels::BadLevel;
    use grid_types::LeaderEpoch;

    fn sample() -> (Entry, Vec<u8>) {
        let head =
            EntryHead { epoch: LeaderEpoch { generation: 1, n: 7 }, term: 9, now_ms: 1, wall_ms: 2, commands: 2 };
        let command = Command::FireTimers(FireTimers {});
        let bytes = encode_command(&command);
        let encoded = encode_entry(head, [&bytes, &bytes]);
        (Entry { head, commands: vec![command.clone(), command] }, encoded)
    }

    #[test]
    fn entries_round_trip() {
        let (entry, bytes) = sample();
        assert_eq!(decode_entry(&bytes).unwrap(), entry);
    }

    #[test]
    fn l2_what_this_version_does_not_know_is_an_error_that_says_so() {
        let (_, bytes) = sample();
        for cut in 0..bytes.len() {
            assert!(decode_entry(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut newer = bytes.clone();
        newer[1] = 2;
        assert_eq!(decode_entry(&newer), Err(BadEntry::Newer(2)));
        let mut trailing = bytes;
        trailing.push(0);
        assert!(decode_entry(&trailing).is_err());
        assert!(matches!(decode_entry(b"SQLite"), Err(BadEntry::Foreign(_))));
    }

    #[test]
    fn l2_an_unknown_command_is_refused() {
        let (entry, _) = sample();
        let unknown = minicbor::to_vec((250u32, [(); 0])).unwrap();
        let head = EntryHead { commands: 1, ..entry.head };
        let said = decode_entry(&encode_entry(head, [&unknown])).unwrap_err();
        assert_eq!(said, BadEntry::UnknownCommand { number: 250, level: FEATURE_LEVEL });
        assert!(said.to_string().contains("command 250") && said.to_string().contains("newer"), "{said}");
    }

    #[test]
    fn l2_commands_are_known_without_a_gap_and_older_programs_know_fewer() {
        assert!((0..=LAST_COMMAND).all(|number| level_of_command(number).is_some_and(|since| since <= FEATURE_LEVEL)));
        assert_eq!(level_of_command(LAST_COMMAND + 1), None);
        let (entry, _) = sample();
        let raise = |level| {
            let raise = encode_command(&Command::RaiseFeatureLevel(RaiseFeatureLevel { level }));
            encode_entry(EntryHead { commands: 1, ..entry.head }, [&raise])
        };
        assert_eq!(decode_entry_at(&raise(1), 0), Err(BadEntry::UnknownCommand { number: 18, level: 0 }));
        assert!(decode_entry_at(&raise(FEATURE_LEVEL), FEATURE_LEVEL).is_ok());
        let newer = BadLevel::Newer { found: FEATURE_LEVEL + 1, known: FEATURE_LEVEL };
        assert_eq!(decode_entry_at(&raise(FEATURE_LEVEL + 1), FEATURE_LEVEL), Err(BadEntry::Level(newer)));
        assert!(decode_entry_at(&raise(FEATURE_LEVEL + 1), FEATURE_LEVEL + 1).is_ok());
    }
}
