//! Hostile clients: everything that an unknown client can send to a port of a running cluster.
//!
//! Three controllers and their workers run jobs of `once` steps while attackers speak raw HTTP/2, gRPC, Raft messages and
//! HTTP to every port: valid, stale, forged, oversized, out of order, in floods. Meanwhile and afterwards:
//! - no process panics or ends, and no leader is deposed;
//! - memory stays within 100 MiB of its level (200 MiB in the short run);
//! - every acknowledged job ends `completed`, and no step was recorded twice;
//! - `/status` counts the refusals.
//!
//! `cargo xtask hostile` runs it for five minutes (`GRID_HOSTILE_SECONDS`), a plain test run for a short time.
//! `GRID_HOSTILE_SEED` repeats the choices of a failed run, `GRID_HOSTILE_ONLY` keeps the attacks whose name contains it.
//! Not here: requests that every client of the API may send (cancel a job, drain a node). Access tokens decide those.

mod api;
mod cluster;
mod peers;
mod target;
mod wire;
mod workers;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::{Load, Watch};
use grid_testkit::{Dice, Trio};
use target::Target;

/// One bounded attack on one controller.
type Attack = (&'static str, fn(&Target, &mut Dice));

/// From this on it is the long run, with all attackers and the strict bound of memory.
const LONG_SECONDS: u64 = 60;
/// The short run shares a small machine with other work.
const ATTACKERS: (u64, u64) = (3, 6);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Ends load and attackers when a check fails: a scope waits for all of its threads.
struct OverAtEnd<'a>(&'a AtomicBool);

impl Drop for OverAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_that_reaches_a_port_hurts_a_cluster_under_load() {
    let seconds = number("GRID_HOSTILE_SECONDS").unwrap_or(10);
    let is_long = seconds >= LONG_SECONDS;
    let attackers = if is_long { ATTACKERS.1 } else { ATTACKERS.0 };
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs());
    let seed = number("GRID_HOSTILE_SEED").unwrap_or_else(clock);
    println!("GRID_HOSTILE_SEED={seed} GRID_HOSTILE_SECONDS={seconds}");
    let workers = cluster::NODES.map(|node| (node, "--groups real --slots 4"));
    let mut trio = Trio::start_with("--max-concurrent 6", &workers);
    let load = Load::new(&trio);
    load.warm_up(&trio, is_long);
    let watch = Watch::new(&trio, is_long);
    let targets = target::all(&mut trio);
    let only = std::env::var("GRID_HOSTILE_ONLY").unwrap_or_default();
    let mut attacks: Vec<Attack> = [peers::ATTACKS, workers::ATTACKS, api::ATTACKS].concat();
    attacks.retain(|(name, _)| name.contains(&only));
    assert!(!attacks.is_empty(), "no attack has {only:?} in its name");

    let until = Instant::now() + Duration::from_secs(seconds);
    let over = AtomicBool::new(false);
    let over_at_end = OverAtEnd(&over);
    let counts = Mutex::new(BTreeMap::<&str, u64>::new());
    thread::scope(|scope| {
        let loading = scope.spawn(|| load.run(&trio, &over));
        let attackers: Vec<_> = (0..attackers)
            .map(|i| {
                let (targets, attacks, counts, over) = (&targets, &attacks, &counts, &over);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed.wrapping_add(i));
                    while Instant::now() < until && !over.load(Ordering::Relaxed) {
                        let (name, attack) = dice.pick(attacks);
                        attack(dice.pick(targets), &mut dice);
                        *counts.lock().expect("no attacker panics here").entry(name).or_default() += 1;
                    }
                })
            })
            .collect();
        let _over_at_end = over_at_end;
        while attackers.iter().any(|attacker| !attacker.is_finished()) {
            watch.check(&trio);
            thread::sleep(Duration::from_millis(500));
        }
        over.store(true, Ordering::Relaxed);
        loading.join().expect("the load's own panic is above");
        for attacker in attackers {
            attacker.join().expect("an attacker's own panic is above");
        }
    });

    let counts = counts.into_inner().expect("nobody panicked");
    println!("{counts:#?}");
    load.check(&trio);
    watch.check(&trio);
    watch.check_end(&mut trio);
    trio.wait_equal();
    if seconds >= 300 {
        let missing: Vec<_> = attacks.iter().map(|(name, _)| *name).filter(|name| !counts.contains_key(name)).collect();
        assert!(missing.is_empty(), "never tried: {missing:?}");
    }
}
