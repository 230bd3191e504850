//! Builds and parses every NATS subject.
//!
//! ```text
//!   node.<id>.register|drain|leave|log|up        worker -> leader, captured by no stream
//!   node.<id>.down.<session>                     leader -> worker
//!   cmd.all|group.<g>|node.<id>.<backend>.<action>   leader -> workers         stream `commands`
//!   result.<job>.<step>.<node>                   worker -> leader              stream `results`
//!   request.job                                  client -> leader              stream `requests`
//! ```
//!
//! A node's name in a subject is one that the server's permissions let only that node's worker use; what a body says about its
//! sender does not count. Names never contain dots or wildcards: their types see to it.

use std::str::FromStr;

use grid_types::{JobId, Name, NodeId, SessionId, StepIndex};

/// All that workers say in their sessions, but for results.
pub const UPS: &str = "node.*.up";
pub const RESULTS: &str = "result.*.*.*";
pub const REQUESTS: &str = "request.>";
pub const REQUEST_JOB: &str = "request.job";
/// Where a new leader announces its epoch. A session of a lower one is over.
pub const LEADER: &str = "cmd.all.grid.leader";
/// What the streams capture.
pub const STREAM_COMMANDS: &str = "cmd.>";
pub const STREAM_RESULTS: &str = "result.>";
/// First tokens under which no client may ask for its answer (N6); `$` stands for every token that begins with it.
pub const RESERVED: [&str; 5] = ["cmd", "result", "request", "node", "$"];

/// What a worker asks of the leader, each with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Register,
    Drain,
    Leave,
    Log,
}

impl Call {
    pub const ALL: [Self; 4] = [Self::Register, Self::Drain, Self::Leave, Self::Log];

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Drain => "drain",
            Self::Leave => "leave",
            Self::Log => "log",
        }
    }

    /// Where the leader hears this call of every node.
    #[must_use]
    pub fn of_all_nodes(self) -> String {
        format!("node.*.{}", self.word())
    }

    #[must_use]
    pub fn of(self, node: &NodeId) -> String {
        format!("node.{node}.{}", self.word())
    }
}

#[must_use]
pub fn up(node: &NodeId) -> String {
    format!("node.{node}.up")
}

#[must_use]
pub fn down(node: &NodeId, session: SessionId) -> String {
    format!("node.{node}.down.{}", session.0)
}

/// The node of `node.<id>.<word>`, with the last token.
#[must_use]
pub fn node_of(subject: &str) -> Option<(NodeId, &str)> {
    let mut tokens = subject.strip_prefix("node.")?.split('.');
    let (id, word) = (tokens.next()?, tokens.next()?);
    if tokens.next().is_some() {
        return None;
    }
    Some((id.parse().ok()?, word))
}

/// Whom a command is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    Group(Name),
    Node(NodeId),
}

impl Scope {
    fn tokens(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Group(group) => format!("group.{group}"),
            Self::Node(node) => format!("node.{node}"),
        }
    }

    /// All commands for this scope.
    #[must_use]
    pub fn wildcard(&self) -> String {
        format!("cmd.{}.>", self.tokens())
    }
}

/// `None`: the backend or the action has a name that is no token of a subject.
#[must_use]
pub fn command(scope: &Scope, backend: &str, action: &str) -> Option<String> {
    let are_tokens = is_token(backend) && is_token(action);
    are_tokens.then(|| format!("cmd.{}.{backend}.{action}", scope.tokens()))
}

/// Scope, backend and action of a command.
#[must_use]
pub fn command_of(subject: &str) -> Option<(Scope, &str, &str)> {
    let mut tokens = subject.strip_prefix("cmd.")?.split('.');
    let scope = match tokens.next()? {
        "all" => Scope::All,
        "group" => Scope::Group(tokens.next()?.parse().ok()?),
        "node" => Scope::Node(tokens.next()?.parse().ok()?),
        _ => return None,
    };
    let (backend, action) = (tokens.next()?, tokens.next()?);
    (tokens.next().is_none() && is_token(backend) && is_token(action)).then_some((scope, backend, action))
}

#[must_use]
pub fn result(job: JobId, step: StepIndex, node: &NodeId) -> String {
    format!("result.{job}.{}.{node}", step.0)
}

#[must_use]
pub fn result_of(subject: &str) -> Option<(JobId, StepIndex, NodeId)> {
    let mut tokens = subject.strip_prefix("result.")?.split('.');
    let (job, step, node) = (tokens.next()?, tokens.next()?, tokens.next()?);
    if tokens.next().is_some() {
        return None;
    }
    Some((JobId::from_str(job).ok()?, StepIndex(step.parse().ok()?), node.parse().ok()?))
}

/// Whether answers may go to a subject that a client names (N6): one without wildcards, outside of what Grid and NATS use.
#[must_use]
pub fn is_reply(subject: &str) -> bool {
    let first = subject.split('.').next().unwrap_or_default();
    subject.split('.').all(is_token) && !first.starts_with('$') && !RESERVED.contains(&first)
}

/// Whether a reply to a worker may go there: its own inbox (N6).
#[must_use]
pub fn is_inbox_of(subject: &str, node: &NodeId) -> bool {
    let rest = subject.strip_prefix("_INBOX.").and_then(|rest| rest.strip_prefix(node.as_str()));
    rest.and_then(|rest| rest.strip_prefix('.')).is_some_and(|rest| rest.split('.').all(is_token))
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>'))
}

#[cfg(test)]
mod tests {
    use grid_types::{JobId, NodeId, SessionId, StepIndex};

    use super::{Call, Scope, command, command_of, down, is_inbox_of, is_reply, node_of, result, result_of, up};

    fn node() -> NodeId {
        "web-01".parse().unwrap()
    }

    #[test]
    fn what_is_built_is_parsed() {
        for call in Call::ALL {
            assert_eq!(node_of(&call.of(&node())), Some((node(), call.word())));
        }
        assert_eq!(node_of(&up(&node())), Some((node(), "up")));
        assert_eq!(down(&node(), SessionId(7)), "node.web-01.down.7");
        let (job, step) = (JobId(7), StepIndex(3));
        assert_eq!(result_of(&result(job, step, &node())), Some((job, step, node())));
        for scope in [Scope::All, Scope::Group("web".parse().unwrap()), Scope::Node(node())] {
            let subject = command(&scope, "apt", "install").unwrap();
            assert!(subject.starts_with(scope.wildcard().trim_end_matches('>')));
            assert_eq!(command_of(&subject), Some((scope, "apt", "install")));
        }
    }

    #[test]
    fn foreign_subjects_are_refused() {
        for subject in ["node.web-01", "node..up", "node.web-01.up.x", "node.*.up", "node.WEB.up", "xnode.a.up", ""] {
            assert_eq!(node_of(subject), None, "{subject}");
        }
        for subject in ["result.1.2", "result.x.0.a", "result.1.-1.a", "result.1.0.a.b", "result.1.0.A"] {
            assert_eq!(result_of(subject), None, "{subject}");
        }
        for subject in ["cmd.all.apt", "cmd.all.apt.install.x", "cmd.group.apt.install", "cmd.some.apt.install"] {
            assert_eq!(command_of(subject), None, "{subject}");
        }
        assert_eq!(command(&Scope::All, "a.b", "c"), None);
        assert_eq!(command(&Scope::All, "a", ">"), None);
    }

    #[test]
    fn n6_replies_go_only_where_a_client_listens() {
        assert!(is_reply("_INBOX.x.1") && is_reply("answers.mine"));
        for subject in
            ["cmd.all.x.y", "result.1.0.a", "request.job", "node.a.up", "$JS.API.X", "a.*", "a.>", "", "a..b"]
        {
            assert!(!is_reply(subject), "{subject}");
        }
        assert!(is_inbox_of("_INBOX.web-01.x.y", &node()));
        for subject in ["_INBOX.web-011.x", "_INBOX.web-01", "_INBOX.web-01.", "_INBOX.web-01.*", "node.web-01.up"] {
            assert!(!is_inbox_of(subject, &node()), "{subject}");
        }
    }
}
