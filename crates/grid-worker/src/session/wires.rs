//! The way to the leader, as one thing to wait for: the attempt to register, the stream of the session, and the calls beside it.
//!
//! Does what the engine asks for and tells what came of it. Not here: any decision (`engine`).

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use grid_fabric::{Arrival, Credential, Downlink, Leave, Link, LinkError, Uplink};
use grid_proto::v1;
use grid_types::SessionId;

use crate::engine::{Input, Registration};
use crate::session::connect::{Connected, Way};

type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(crate) struct Wires<W: Way> {
    way: Arc<W>,
    node_id: String,
    registering: Option<Pending<Result<Connected<W::Link>, LinkError>>>,
    link: Option<W::Link>,
    session: Option<Session>,
    opening: Option<Pending<Result<(Uplink, Downlink), LinkError>>>,
    streams: Option<(Uplink, Downlink)>,
    call: Option<(Call, Pending<Result<(), LinkError>>)>,
}

struct Session {
    id: SessionId,
    credential: Credential,
}

#[derive(Clone, Copy)]
enum Call {
    Drain,
    Leave,
}

impl<W: Way> Wires<W> {
    pub(crate) fn new(way: W, node_id: String) -> Self {
        Self {
            way: Arc::new(way),
            node_id,
            registering: None,
            link: None,
            session: None,
            opening: None,
            streams: None,
            call: None,
        }
    }

    pub(crate) fn register(&mut self, registration: Registration) {
        self.close();
        let way = Arc::clone(&self.way);
        self.registering = Some(Box::pin(async move { way.register(&registration).await }));
    }

    pub(crate) fn learn(&self, controllers: &[String]) {
        self.way.learn(controllers);
    }

    pub(crate) fn open(&mut self, credential: Credential, first: v1::FromWorker) {
        let Some(link) = self.link.clone() else { return };
        self.session = Some(Session { id: credential.session, credential });
        self.opening = Some(Box::pin(async move { link.open(first).await }));
    }

    /// After [`Input::UplinkFree`], so there is room. A stream that broke meanwhile says so itself.
    pub(crate) fn send(&self, message: v1::FromWorker) {
        if let Some((uplink, _)) = &self.streams {
            uplink.send(message);
        }
    }

    pub(crate) fn drain(&mut self) {
        self.call(Call::Drain, |link, node, credential| Box::pin(async move { link.drain(node, credential).await }));
    }

    pub(crate) fn leave(&mut self, leave: Leave) {
        self.call(Call::Leave, move |link, node, credential| {
            Box::pin(async move { link.leave(node, credential, leave).await })
        });
    }

    fn call(&mut self, call: Call, ask: impl FnOnce(W::Link, String, Credential) -> Pending<Result<(), LinkError>>) {
        if let (Some(link), Some(session)) = (&self.link, &self.session) {
            self.call = Some((call, ask(link.clone(), self.node_id.clone(), session.credential.clone())));
        }
    }

    /// The link and credential of the session.
    pub(crate) fn session(&self) -> Option<(W::Link, Credential)> {
        Some((self.link.clone()?, self.session.as_ref()?.credential.clone()))
    }

    pub(crate) fn close(&mut self) {
        (self.registering, self.opening, self.streams, self.call) = (None, None, None, None);
        (self.link, self.session) = (None, None);
    }

    /// The next that comes of what was asked for. Loses nothing when it is dropped before it is ready.
    pub(crate) async fn next(&mut self, wants_to_speak: bool) -> Input {
        let session = self.session.as_ref().map_or(SessionId(0), |session| session.id);
        let (uplink, downlink) = self.streams.as_mut().map_or((None, None), |(up, down)| (Some(&*up), Some(down)));
        tokio::select! {
            connected = ready(self.registering.as_mut()) => {
                self.registering = None;
                match connected {
                    Ok(Connected { link, reply, leader }) => {
                        self.link = Some(link);
                        Input::Registered { reply: Box::new(reply), leader }
                    }
                    Err(trouble) => Input::NotRegistered(trouble),
                }
            }
            opened = ready(self.opening.as_mut()) => {
                self.opening = None;
                match opened {
                    Ok(streams) => {
                        self.streams = Some(streams);
                        Input::Opened { session }
                    }
                    Err(error) => Input::Broken { session, reason: error.to_string() },
                }
            }
            heard = heard(downlink) => match heard {
                Some(Ok(Arrival::Message(message))) => Input::Received { session, message },
                Some(Ok(Arrival::Resumed)) => Input::Resumed { session },
                Some(Err(error)) => Input::Broken { session, reason: error.to_string() },
                None => Input::Broken { session, reason: "the controller ended the stream".to_owned() },
            },
            is_free = has_room(uplink), if wants_to_speak => match is_free {
                true => Input::UplinkFree { session },
                false => Input::Broken { session, reason: "the stream broke".to_owned() },
            },
            (call, done) = called(self.call.as_mut()) => {
                self.call = None;
                let problem = done.err().map(|error| error.to_string());
                match call {
                    Call::Drain => Input::Drained { session, problem },
                    Call::Leave => Input::Left { session, problem },
                }
            }
        }
    }
}

async fn ready<T>(asked: Option<&mut Pending<T>>) -> T {
    match asked {
        Some(asked) => asked.await,
        None => pending().await,
    }
}

async fn called(call: Option<&mut (Call, Pending<Result<(), LinkError>>)>) -> (Call, Result<(), LinkError>) {
    match call {
        Some((call, asked)) => (*call, asked.await),
        None => pending().await,
    }
}

async fn heard(downlink: Option<&mut Downlink>) -> Option<Result<Arrival, LinkError>> {
    match downlink {
        Some(downlink) => downlink.next().await,
        None => pending().await,
    }
}

async fn has_room(uplink: Option<&Uplink>) -> bool {
    match uplink {
        Some(uplink) => uplink.reserve().await.is_some(),
        None => pending().await,
    }
}
