//! End to end: the real binaries, real signals, files and sockets; black box.
//!
//! One executable for all topics, so that they are linked once and run in
//! parallel: most of them wait for processes, and a task of 45 s must not hold up
//! the rest.
//! Not here: anything a unit test can show. Each test here needs two processes.

mod agents;
mod agents_ha;
mod backends;
mod bad_input;
mod bad_peers;
mod bad_requests;
mod bench;
mod chaos;
mod children;
mod clocks;
mod command_line;
mod commands;
mod conditions;
mod copies;
mod crowd;
mod damage;
mod endings;
mod events;
mod files;
mod floods;
mod folders;
mod ha_conformance;
mod ha_failover;
mod ha_members;
mod ha_node;
mod ha_partition;
mod hostile_workers;
mod http;
mod live_view;
mod logs;
mod nats;
mod nats_broadcast;
mod nats_clients;
mod nats_config;
mod nats_connections;
mod nats_suites;
mod nodes;
mod once;
mod open_files;
mod openapi;
mod order;
mod outputs;
mod pruning;
mod raft_port;
mod real_apt;
mod refusals;
mod restarts;
mod restore;
mod restore_once;
mod retries;
mod retry_failed;
mod runs;
mod scenarios;
mod seed_jobs;
mod settings;
mod short_disk;
mod silence;
mod staging;
mod strategies;
mod targets;
mod tasks;
mod terminals;
mod tour;
mod unwritable;
mod upgrades;
mod waits;
mod web_pages;
