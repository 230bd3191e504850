//! Writes the configuration of each nats-server: ports, JetStream, TLS, the other servers of its cluster.
//!
//! Times are shorter than the server's own: a session is known to be dead when its subscription is gone (N4), and a server removes
//! it when the worker's connection answers no ping.

use std::fmt::Write;

use super::users::Users;

const ROUTES: u16 = 6222;
const MONITORING: u16 = 8222;

/// The file's name and text, for each server.
pub fn files(users: &Users) -> Vec<(String, String)> {
    match users.servers.as_slice() {
        [] => vec![("nats-server.conf".to_owned(), one(users, "nats-1", &[]))],
        [host] => vec![("nats-server.conf".to_owned(), one(users, host, &[]))],
        hosts => hosts.iter().map(|host| (format!("nats-server-{host}.conf"), one(users, host, hosts))).collect(),
    }
}

fn one(users: &Users, host: &str, cluster: &[String]) -> String {
    let port = users.port;
    let mut text = format!(
        "# Written by `grid nats config`. Start the server in this folder: nats-server -c FILE\n\
         server_name: {host:?}\n\
         port: {port}\n\
         # Health and counters, for this machine alone.\n\
         http: \"127.0.0.1:{MONITORING}\"\n\
         jetstream {{ store_dir: \"jetstream\" }}\n\
         # The body of a job has up to 1 MiB.\n\
         max_payload: 2MB\n\
         # A worker whose machine is gone is noticed within about 20 s.\n\
         ping_interval: \"10s\"\n\
         ping_max: 2\n\
         include \"users.conf\"\n"
    );
    if users.tls {
        text.push_str("tls { cert_file: \"server.pem\", key_file: \"server.key\", timeout: 5 }\n");
    }
    if !cluster.is_empty() {
        let routes: Vec<String> = cluster.iter().map(|host| format!("\"nats://{host}:{ROUTES}\"")).collect();
        let _ = writeln!(text, "cluster {{\n  name: grid\n  port: {ROUTES}\n  routes: [{}]", routes.join(", "));
        if users.tls {
            let tls = "tls { cert_file: \"server.pem\", key_file: \"server.key\", ca_file: \"ca.pem\", verify: true, timeout: 5 }";
            let _ = writeln!(text, "  {tls}");
        }
        text.push_str("}\n");
    }
    text
}
