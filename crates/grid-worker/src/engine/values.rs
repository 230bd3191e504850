//! Defines what goes into an engine and what comes out of it.

use grid_fabric::{Credential, Leave, LinkError};
use grid_proto::v1;
use grid_types::node::NodeFacts;
use grid_types::{LeaseKey, NodeId, SessionId, Span};

use super::Stop;
use crate::engine::book::{LeaseEvent, Work};
use crate::engine::record::Record;

/// Who this worker is, as it registers (W1).
#[derive(Debug, Clone)]
pub struct Identity {
    pub node_id: NodeId,
    pub journal_id: Vec<u8>,
    pub boot: u64,
    pub nonce: [u8; 16],
    /// Empty until the first registration.
    pub cluster_id: String,
    pub facts: NodeFacts,
    /// The longest time between two heartbeats, if it is shorter than the leader's.
    pub heartbeat: Option<Span>,
}

/// What happened. What names a session counts only while that session is the current one.
#[derive(Debug)]
pub enum Input {
    /// The time of [`super::Engine::wake_at_mono_ms`] has come. Also the first input.
    Woken,
    Lease(LeaseEvent),
    /// Every record up to this one is on disk.
    Synced {
        up_to: u64,
    },
    Stop(Stop),
    /// `leader`: where it was reached, for the log.
    Registered {
        reply: Box<v1::RegisterNodeReply>,
        leader: String,
    },
    NotRegistered(LinkError),
    Opened {
        session: SessionId,
    },
    Received {
        session: SessionId,
        message: Box<v1::ToWorker>,
    },
    /// The session goes on, and messages of either side may have been lost.
    Resumed {
        session: SessionId,
    },
    /// The stream takes one more message.
    UplinkFree {
        session: SessionId,
    },
    /// The stream, or the attempt to open it, is over.
    Broken {
        session: SessionId,
        reason: String,
    },
    /// The leader knows that this node takes no more leases, or could not be reached.
    Drained {
        session: SessionId,
        problem: Option<String>,
    },
    Left {
        session: SessionId,
        problem: Option<String>,
    },
}

/// What has to be done.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// To the journal, before anything that comes after it.
    Append(Vec<Record>),
    /// The journal has to be synced; then [`Input::Synced`].
    Sync {
        up_to: u64,
    },
    Start(Work),
    /// The lease still reports its end.
    Stop(LeaseKey),
    /// The leader has stored these outputs whole.
    DiscardOutputs(Vec<LeaseKey>),
    /// No leader has stored these outputs: if they are in memory only, they are to be kept otherwise.
    KeepOutputs(Vec<LeaseKey>),
    /// Find the leader and register; then [`Input::Registered`] or [`Input::NotRegistered`].
    Register(Box<Registration>),
    /// The cluster that this worker belongs to from now on (E3), on disk before anything that comes after it.
    SaveClusterId(String),
    /// How many bytes of an output a result carries.
    SetTailBytes(u32),
    /// Open the stream of this session; then [`Input::Opened`] or [`Input::Broken`].
    Open {
        credential: Credential,
        first: Box<v1::FromWorker>,
    },
    /// After [`Input::UplinkFree`].
    Send(Box<v1::FromWorker>),
    /// The session is over: close its stream and drop what was asked in it.
    CloseSession,
    /// Then [`Input::Drained`].
    Drain,
    /// Then [`Input::Left`].
    Leave(Leave),
    /// Registered for the first time, with the stream open.
    Ready {
        session: SessionId,
    },
    /// API URLs of controllers, for later attempts to register.
    LearnControllers(Vec<String>),
    AnswerLog(Box<v1::LogRequest>),
    /// Time to remove old outputs and to reserve space.
    Chores,
    /// The worker is over.
    End(Ending),
}

/// One attempt to register.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub request: v1::RegisterNodeRequest,
    /// API URL of a controller to ask first.
    pub ask_first: Option<String>,
}

/// Why a worker is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to stop.
    Done,
    /// An operator removed the node.
    Removed,
    /// The leader's reason.
    Refused(String),
}
