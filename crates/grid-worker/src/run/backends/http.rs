//! `http`: one GET, and a look at the answer.
//!
//! Just enough HTTP for that, as `machine::directory` has it: HTTP/1.0, so that an answer is never chunked, without TLS. An answer is read up to a limit, a
//! redirect is followed only as often as the caller asked, and only to hosts that the operator allowed.
//! A body that is shorter than its head says is an error.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use grid_types::decl::{ParamValue, Params};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::dial::dial;
use super::{Backend, Run, params};
use crate::allow::Hosts;
use crate::run::lease::LeaseContext;

const HEAD_BYTES: usize = 64 * 1024;
const BODY_BYTES: usize = 1024 * 1024;
/// Of the body, in the output.
const SHOWN_BYTES: usize = 4 * 1024;
/// What Grid says itself, or what would change where the answer ends.
const OWN_HEADERS: [&str; 4] = ["connection", "content-length", "transfer-encoding", "upgrade"];

pub(super) struct Http {
    hosts: Arc<Hosts>,
}

impl Http {
    pub(super) fn new(hosts: Hosts) -> Self {
        Self { hosts: Arc::new(hosts) }
    }
}

impl Backend for Http {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let hosts = Arc::clone(&self.hosts);
        Box::pin(async move {
            if action != "check" {
                return Err(format!("http has no action {action}"));
            }
            check(&context, &hosts, &given).await
        })
    }
}

async fn check(context: &LeaseContext, hosts: &Hosts, given: &Params) -> Result<(), String> {
    let url = Url::parse(params::required_text(given, "url")?)?;
    let redirects = params::integer(given, "redirects").unwrap_or(0);
    let (url, answer) = follow(url, &headers(given)?, redirects, hosts).await?;
    context.write(format!("{url}: {}\n", answer.status).as_bytes());
    context.write(&answer.body[..answer.body.len().min(SHOWN_BYTES)]);
    let wanted = match given.get("statuses") {
        Some(ParamValue::Integers(statuses)) => statuses.as_slice(),
        _ => &[200],
    };
    if !wanted.contains(&answer.status.into()) {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        return Err(format!("{url} answered {}, and {} is expected", answer.status, wanted.join(" or ")));
    }
    match params::text(given, "contains") {
        Some(text) if !contains(&answer.body, text.as_bytes()) => {
            Err(format!("{url} answered {}, but its body does not contain {text:?}", answer.status))
        }
        _ => Ok(()),
    }
}

/// Asks, and follows at most so many redirects. The caller's headers go to the first server only: a credential for one server is not
/// for another.
async fn follow(
    mut url: Url,
    headers: &BTreeMap<String, String>,
    mut redirects: u64,
    hosts: &Hosts,
) -> Result<(Url, Answer), String> {
    let (first, none) = (url.authority(), BTreeMap::new());
    loop {
        hosts.check(&url.host, url.port)?;
        let sent = if url.authority() == first { headers } else { &none };
        let answer = ask(&url, sent).await.map_err(|error| format!("{url}: {error}"))?;
        match answer.location.as_deref().filter(|_| answer.is_redirect() && redirects > 0) {
            Some(location) => url = url.join(location)?,
            None => return Ok((url, answer)),
        }
        redirects -= 1;
    }
}

/// In time that grows with the body alone, whatever both ends send.
fn contains(body: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(body, text).is_some()
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    host: String,
    port: u16,
    /// With the query.
    path: String,
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

impl Url {
    /// Only what means one thing: no user, no fragment, nothing that is not printable ASCII.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a URL like http://HOST:PORT/PATH");
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['\\', '#', '@']) {
            return Err(wrong());
        }
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) })
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() || (host.contains(':') && !authority.starts_with('[')) {
            return Err(wrong());
        }
        let port = port.map_or(Ok(80), |port| port.parse().map_err(|_| wrong()))?;
        Ok(Self { host: host.to_owned(), port, path })
    }

    fn join(&self, location: &str) -> Result<Self, String> {
        if location.starts_with("http://") {
            return Self::parse(location);
        }
        if location.starts_with('/') && !location.starts_with("//") {
            return Self::parse(&format!("http://{}{location}", self.authority()));
        }
        let shown: String = location.chars().take(200).collect();
        Err(format!("{self} redirects to {shown:?}, which is not followed: only http:// and paths are"))
    }

    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }
}

/// Without a line break nothing in a header can begin another one.
fn headers(given: &Params) -> Result<BTreeMap<String, String>, String> {
    let Some(ParamValue::TextMap(headers)) = given.get("headers") else { return Ok(BTreeMap::new()) };
    for (name, value) in headers {
        if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the header {name} is not the caller's to set"));
        }
        if value.contains(char::is_control) {
            return Err(format!("the header {name} must not contain control characters"));
        }
    }
    Ok(headers.clone())
}

fn request(url: &Url, headers: &BTreeMap<String, String>) -> String {
    let mut text = format!("GET {} HTTP/1.0\r\n", url.path);
    let has = |name: &str| headers.keys().any(|given| given.eq_ignore_ascii_case(name));
    for (name, value) in [("Host", url.authority()), ("Accept", "*/*".to_owned()), ("User-Agent", "grid".to_owned())] {
        if !has(name) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
    text.push_str("Connection: close\r\n\r\n");
    text
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    location: Option<String>,
    length: Option<usize>,
    body: Vec<u8>,
}

impl Answer {
    fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
    }

    /// The end of the body, if the head says it.
    fn is_whole(&self) -> bool {
        self.length.is_some_and(|length| self.body.len() >= length)
    }

    /// What counts of it once no more is read.
    fn read(mut self) -> Result<Self, String> {
        let limit = self.length.map_or(BODY_BYTES, |length| length.min(BODY_BYTES));
        match self.length {
            Some(length) if self.body.len() < limit => {
                Err(format!("the answer broke off after {} of {length} bytes", self.body.len()))
            }
            _ => {
                self.body.truncate(limit);
                Ok(self)
            }
        }
    }
}

async fn ask(url: &Url, headers: &BTreeMap<String, String>) -> Result<Answer, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut stream = dial(&url.host, url.port).await?;
    stream.write_all(request(url, headers).as_bytes()).await.map_err(io)?;
    let (mut bytes, mut answer) = (Vec::new(), None::<Answer>);
    loop {
        let got = stream.read_buf(&mut bytes).await.map_err(io)?;
        if answer.is_none()
            && let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n")
        {
            answer = Some(head(&bytes[..end])?);
            bytes.drain(..end + 4);
        }
        let Some(answer) = &mut answer else {
            if got == 0 || bytes.len() > HEAD_BYTES {
                return Err("the answer is no HTTP".to_owned());
            }
            continue;
        };
        answer.body.append(&mut bytes);
        if got == 0 || answer.is_whole() || answer.body.len() >= BODY_BYTES {
            break;
        }
    }
    answer.ok_or_else(|| "the answer is no HTTP".to_owned())?.read()
}

fn head(bytes: &[u8]) -> Result<Answer, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let status =
        first.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let status = status.filter(|status| (100..600).contains(status)).ok_or("the answer is no HTTP")?;
    let value = |name: &str| {
        let pair = |line: &str| {
            let (found, value) = line.split_once(':')?;
            found.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        text.lines().skip(1).find_map(pair)
    };
    let has_no_body = matches!(status, 204 | 304);
    let length = if has_no_body { Some(0) } else { value("content-length").and_then(|digits| digits.parse().ok()) };
    Ok(Answer { status, location: value("location"), length, body: Vec::new() })
}
