//! Defines the configuration of a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use grid_types::limits::DEFAULT_SLOTS;
use grid_types::{Name, NodeId, SessionId, Span};

use crate::allow::Allow;

#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// API URLs of controllers, any of them.
    pub servers: Vec<String>,
    /// Without one, an id is made once and kept in the data folder.
    pub node_id: Option<NodeId>,
    pub groups: BTreeSet<Name>,
    pub labels: BTreeMap<String, String>,
    pub data_dir: PathBuf,
    /// On top of those that are on by default.
    pub enable_backends: Vec<String>,
    /// Never offered, whatever is installed.
    pub disable_backends: Vec<String>,
    /// Variables of this process that programs of leases get, too.
    pub pass_env: Vec<String>,
    /// What callers may do with the backends that run programs.
    pub allow: Allow,
    /// Leases at once.
    pub slots: u32,
    /// What others reach this machine by; without one, the address from which it reaches the controller.
    pub address: Option<String>,
    /// Reports at least so often; a leader may ask for more.
    pub heartbeat: Option<Span>,
    /// Give up everything the data folder knows (W1).
    pub reset_journal: bool,
}

impl WorkerConfig {
    #[must_use]
    pub fn new(servers: Vec<String>, data_dir: PathBuf) -> Self {
        Self {
            servers,
            node_id: None,
            groups: BTreeSet::new(),
            labels: BTreeMap::new(),
            data_dir,
            enable_backends: Vec::new(),
            disable_backends: Vec::new(),
            pass_env: Vec::new(),
            allow: Allow::default(),
            slots: DEFAULT_SLOTS,
            address: None,
            heartbeat: None,
            reset_journal: false,
        }
    }
}

/// Registered, with its session open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    pub node_id: NodeId,
    pub session: SessionId,
}
