//! `grid nats config`: writes what a NATS cluster of Grid needs into one folder, or extends it.

use std::process::ExitCode;

use super::files::{self, Readers};
use super::users::Users;
use super::{certificates, permissions, server_file};
use crate::cli::NatsConfigArgs;
use crate::say;

pub fn run(args: &NatsConfigArgs) -> anyhow::Result<ExitCode> {
    let out = &args.out;
    files::folder(out)?;
    let users = Users::updated(args)?;
    if users.tls {
        certificates::write(out, &users.servers)?;
    }
    files::write(&out.join("users.conf"), Readers::Owner, &permissions::account(&users))?;
    let servers = server_file::files(&users);
    for (name, text) in &servers {
        files::write(&out.join(name), Readers::Everyone, text)?;
    }
    // Last: a run that is killed before leaves seeds, which the next one uses.
    users.save(out)?;
    say(&users, args, &servers);
    Ok(ExitCode::SUCCESS)
}

fn say(users: &Users, args: &NatsConfigArgs, servers: &[(String, String)]) {
    let out = args.out.display();
    for (name, _) in servers {
        say::out(format_args!("{out}/{name}"));
    }
    let (scheme, ca) = if users.tls { ("tls", format!(" --nats-ca {out}/ca.pem")) } else { ("nats", String::new()) };
    let hosts = if users.servers.is_empty() { vec!["127.0.0.1".to_owned()] } else { users.servers.clone() };
    let urls: Vec<String> = hosts.iter().map(|host| format!("{scheme}://{host}:{}", users.port)).collect();
    let urls = urls.join(",");
    say::err(format_args!("hint: start the servers in this folder, then the controllers and workers:"));
    say::err(format_args!(
        "  nats-server -c {}",
        servers.first().map_or("nats-server.conf", |(name, _)| name.as_str())
    ));
    say::err(format_args!("  grid server --fabric nats --nats {urls} --nats-creds {out}/controller.nk{ca} …"));
    if let Some(worker) = users.workers.keys().next() {
        say::err(format_args!(
            "  grid worker --nats {urls} --nats-creds {out}/workers/{worker}.nk{ca} --node-id {worker} …"
        ));
    }
    if !users.tls {
        say::err(format_args!("hint: connections are not encrypted; --tls creates a CA and certificates"));
    }
}
