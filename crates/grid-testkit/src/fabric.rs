//! How the workers of a test's cluster reach its controllers.
//!
//! Clusters use gRPC, unless the test names another fabric or `GRID_TEST_FABRIC=nats` is set: the same tests hold on both.

use crate::nats::{Nats, NatsTrio};

/// The nats-servers of a cluster, if it has some.
pub enum Fabric {
    Grpc,
    Nats(Box<Nats>),
    NatsTrio(Box<NatsTrio>),
}

impl Fabric {
    /// As the environment says.
    ///
    /// # Panics
    /// For an unknown fabric.
    pub fn of_test() -> Self {
        match std::env::var("GRID_TEST_FABRIC").as_deref() {
            Ok("nats") => Self::nats(),
            Err(_) | Ok("grpc" | "") => Self::Grpc,
            Ok(other) => panic!("GRID_TEST_FABRIC={other}: grpc or nats"),
        }
    }

    /// One nats-server.
    pub fn nats() -> Self {
        Self::Nats(Box::new(Nats::start()))
    }

    /// For `--nats`; `None` on gRPC.
    pub fn urls(&self) -> Option<String> {
        match self {
            Self::Grpc => None,
            Self::Nats(server) => Some(server.url()),
            Self::NatsTrio(servers) => Some(servers.urls()),
        }
    }

    /// Flags of a controller.
    pub fn server_flags(&self) -> String {
        self.urls().map_or_else(String::new, |urls| format!("--fabric nats --nats {urls}"))
    }

    /// The one nats-server.
    ///
    /// # Panics
    /// When there is none, or there are three.
    pub fn server(&mut self) -> &mut Nats {
        match self {
            Self::Nats(server) => server,
            Self::Grpc | Self::NatsTrio(_) => panic!("this cluster does not have one nats-server"),
        }
    }

    /// The three nats-servers.
    ///
    /// # Panics
    /// When there are none.
    pub fn servers(&mut self) -> &mut NatsTrio {
        match self {
            Self::NatsTrio(servers) => servers,
            Self::Grpc | Self::Nats(_) => panic!("this cluster does not have three nats-servers"),
        }
    }
}
