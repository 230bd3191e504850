//! `grid nats`, and the nats-server that `grid dev` and `grid demo` start beside themselves.
//!
//! Not here: the fabric (`grid_fabric::nats`), how controllers and workers are connected to it (`server`, `worker`).

pub mod beside;
mod certificates;
mod child;
mod config;
mod files;
mod permissions;
mod server_file;
mod users;

use std::process::ExitCode;

use crate::cli::{NatsVerb, NatsVerbArgs};

pub fn run(args: NatsVerbArgs) -> anyhow::Result<ExitCode> {
    match args.verb {
        NatsVerb::Config(args) => config::run(&args),
        NatsVerb::Child(args) => child::run(&args),
    }
}
