//! Parses the base URL of a controller's API.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

use crate::error::Error;

/// A validated base URL, `http://HOST[:PORT][/PREFIX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

/// Parses a list as `--server` takes it: addresses separated by commas.
///
/// # Errors
/// When one of them is not an address, or the list is empty.
pub fn parse_servers(text: &str) -> Result<Vec<ServerUrl>, Error> {
    let servers: Vec<_> =
        text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    if servers.is_empty() { Err(Error::NoServer) } else { Ok(servers) }
}

impl ServerUrl {
    /// The URL of a resource; segments are escaped, so that an id cannot change the path.
    pub(crate) fn resource(&self, segments: &[&str], query: &[(&str, String)]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

impl FromStr for ServerUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad =
            |problem: &str| Error::BadServer { text: text.chars().take(200).collect(), problem: problem.to_owned() };
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&full).map_err(|e| bad(&e.to_string()))?;
        match url.scheme() {
            "http" => {}
            "https" => return Err(bad("https is not built in; use http://HOST:PORT")),
            _ => return Err(bad("use http://HOST:PORT")),
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("use http://HOST:PORT, without user, query or fragment"));
        }
        Ok(Self(url))
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::{ServerUrl, parse_servers};

    #[test]
    fn an_id_never_leaves_its_place_in_the_path() {
        let server: ServerUrl = "http://h:1/grid/".parse().unwrap();
        let url = server.resource(&["api", "../x?y#z", "jobs"], &[("after", "a&b".to_owned())]);
        assert_eq!(url.as_str(), "http://h:1/grid/api/..%2Fx%3Fy%23z/jobs?after=a%26b");
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let servers = parse_servers("http://a:1, 127.0.0.1:8765,").unwrap();
        let shown: Vec<_> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["http://a:1", "http://127.0.0.1:8765"]);
        for bad in ["", ",", "ftp://a", "https://a", "http://", "http://u:p@a", "http://a/?q"] {
            assert!(parse_servers(bad).is_err(), "{bad}");
        }
    }
}
