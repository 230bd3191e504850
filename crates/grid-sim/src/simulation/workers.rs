//! Does what the engines of the workers ask for, with a journal in memory and processes that only have a duration.

use grid_proto::v1;
use grid_types::LeaseKey;
use grid_worker::engine::book::{LeaseEvent, Work};
use grid_worker::engine::record::{Ended, Group, Status};
use grid_worker::engine::{Input, Output};

use super::{Call, Event, Simulation};
use crate::check::{FAILED, Run};
use crate::machine::{Restart, Running};

/// An engine that asks for more than this after one input never stops.
const MOST_STEPS: usize = 1_000;
const OUTPUT: &[u8] = b"done\n";

impl Simulation {
    /// The worker's process ends; another one starts a moment later.
    pub fn restart(&mut self, machine: usize, restart: Restart) {
        if !self.machines[machine].is_up {
            return;
        }
        self.note(|all| format!("{} ends: {restart:?}", all.machines[machine].name));
        let known = &self.machines[machine];
        let (written, durable, session) = (known.journal.len(), known.durable, known.session);
        let unsynced = (written - durable) as u64;
        let kept = match restart {
            Restart::Process => written,
            Restart::Machine => durable + usize::try_from(self.dice.roll(unsynced + 1)).unwrap_or(0),
        };
        let noticed_ms = match restart {
            Restart::Process => self.now_ms + self.dice.roll(50),
            Restart::Machine => self.now_ms + self.dice.roll(20_000),
        };
        if let Some(session) = session {
            self.schedule.at(noticed_ms, Event::StreamEnded { session });
        }
        self.check.killed(machine, self.now_ms);
        self.machines[machine].end(kept);
        let at_ms = self.now_ms + 10 + self.dice.roll(3_000);
        let process = self.machines[machine].process;
        self.schedule.at(at_ms, Event::Starts { machine, process });
    }

    pub(super) fn start_again(&mut self, machine: usize, process: u64) {
        if self.machines[machine].process == process {
            self.machines[machine].start();
            self.handle(machine, Input::Woken);
        }
    }

    /// The worker's process is stopped, and what it started continues.
    pub fn freeze(&mut self, machine: usize, ms: u64) {
        self.note(|all| format!("{} is stopped for {ms} ms", all.machines[machine].name));
        self.machines[machine].frozen_until_ms = self.now_ms + ms;
    }

    pub(super) fn woken(&mut self, machine: usize, wake: u64) {
        let known = &self.machines[machine];
        if known.wake != wake || !known.is_up {
            return;
        }
        if known.frozen_until_ms > self.now_ms {
            return self.schedule.at(known.frozen_until_ms, Event::Woken { machine, wake });
        }
        self.handle(machine, Input::Woken);
    }

    pub(super) fn synced(&mut self, machine: usize, length: usize, up_to: u64) {
        let known = &mut self.machines[machine];
        known.durable = known.durable.max(length.min(known.journal.len()));
        self.handle(machine, Input::Synced { up_to });
    }

    /// An input for the engine, and everything that it asks for because of it.
    pub(super) fn handle(&mut self, machine: usize, input: Input) {
        let now = self.machines[machine].now(self.now_ms);
        self.machines[machine].engine.handle(input, now);
        for step in 0.. {
            if step == MOST_STEPS {
                self.check.violations.push(format!("the engine of machine {machine} never stops"));
                break;
            }
            let outputs = self.machines[machine].engine.take_outputs();
            if !outputs.is_empty() {
                outputs.into_iter().for_each(|output| self.act(machine, output));
                self.compact_now_and_then(machine);
                continue;
            }
            let known = &mut self.machines[machine];
            let Some(session) = known.session.filter(|_| known.engine.wants_to_speak(now)) else { break };
            known.engine.handle(Input::UplinkFree { session }, now);
        }
        let known = &mut self.machines[machine];
        if let Some(at_ms) = known.wake_at_ms(self.now_ms) {
            known.wake += 1;
            let wake = known.wake;
            self.schedule.at(at_ms.max(self.now_ms + 1), Event::Woken { machine, wake });
        }
    }

    fn act(&mut self, machine: usize, output: Output) {
        let process = self.machines[machine].process;
        match output {
            Output::Append(records) => self.machines[machine].journal.extend(records),
            Output::Sync { up_to } => {
                let length = self.machines[machine].journal.len();
                let at_ms = self.now_ms + 1 + self.dice.roll(10);
                self.schedule.at(at_ms, Event::Synced { machine, process, length, up_to });
            }
            Output::Start(work) => {
                self.machines[machine].running.insert(work.lease, Running::default());
                let at_ms = self.now_ms + self.dice.roll(3);
                self.schedule.at(at_ms, Event::Fork { machine, process, work: Box::new(work) });
            }
            Output::Stop(lease) => self.stop(machine, lease),
            Output::Register(registration) => {
                self.send_up(machine, Call::Register(Box::new(registration.request)));
            }
            Output::SaveClusterId(cluster_id) => self.machines[machine].cluster_id = cluster_id,
            Output::Open { credential, first } => {
                self.machines[machine].session = Some(credential.session);
                self.send_up(machine, Call::Open { credential, first });
            }
            Output::Send(message) => {
                if let Some(session) = self.machines[machine].session {
                    self.send_up(machine, Call::Message { session, message });
                }
            }
            Output::CloseSession => {
                if let Some(session) = self.machines[machine].session.take() {
                    let at_ms = self.now_ms + self.dice.roll(50);
                    self.schedule.at(at_ms, Event::StreamEnded { session });
                }
            }
            Output::End(ending) => {
                self.note(|all| format!("{} ends: {ending:?}", all.machines[machine].name));
                self.restart(machine, Restart::Process);
            }
            Output::Drain | Output::Leave(_) => {
                self.check.violations.push(format!("machine {machine} wants to leave: nobody asked it to"));
            }
            Output::DiscardOutputs(_)
            | Output::KeepOutputs(_)
            | Output::SetTailBytes(_)
            | Output::Ready { .. }
            | Output::LearnControllers(_)
            | Output::AnswerLog(_)
            | Output::Chores => {}
        }
    }

    /// The journal starts over from what the engine knows.
    fn compact_now_and_then(&mut self, machine: usize) {
        if self.machines[machine].journal.len() < 40 || !self.chance(5) {
            return;
        }
        let now = self.machines[machine].now(self.now_ms);
        let known = &mut self.machines[machine];
        if !known.is_up {
            return;
        }
        known.journal = known.engine.snapshot().collect();
        known.durable = known.journal.len();
        let up_to = known.engine.written();
        known.engine.handle(Input::Synced { up_to }, now);
    }

    pub(super) fn fork(&mut self, machine: usize, work: Work) {
        let lease = work.lease;
        let now = self.machines[machine].now(self.now_ms);
        let Some(running) = self.machines[machine].running.get_mut(&lease) else { return };
        if work.start_by_mono_ms.is_some_and(|by| now.mono_ms > by) {
            self.machines[machine].running.remove(&lease);
            return self.handle(machine, Input::Lease(LeaseEvent::Late { work }));
        }
        if running.is_stopped {
            return self.lease_ends(machine, lease, Status::Cancelled);
        }
        running.is_forked = true;
        let process = self.machines[machine].process;
        let is_once = work.offer.effect() == v1::EffectClass::Once;
        self.note(|all| format!("{} starts {lease:?}", all.machines[machine].name));
        let (from_ms, to_ms, status) = (self.now_ms, None, None);
        self.check.started(Run { machine, process, lease, is_once, from_ms, to_ms, status });
        let group = Group { pgid: 7, start_ticks: self.now_ms, machine_boot: 1 };
        self.handle(machine, Input::Lease(LeaseEvent::Forked { lease, group }));
        let failing = self.faults.failing;
        let status = if self.chance(failing) { Status::Failed } else { Status::Success };
        let at_ms = self.now_ms + 1 + self.dice.roll(800);
        self.schedule.at(at_ms, Event::Ends { machine, process, lease, status });
    }

    fn stop(&mut self, machine: usize, lease: LeaseKey) {
        let process = self.machines[machine].process;
        let Some(running) = self.machines[machine].running.get_mut(&lease) else { return };
        running.is_stopped = true;
        if running.is_forked {
            let at_ms = self.now_ms + self.dice.roll(20);
            self.schedule.at(at_ms, Event::Ends { machine, process, lease, status: Status::Cancelled });
        }
    }

    pub(super) fn lease_ends(&mut self, machine: usize, lease: LeaseKey, status: Status) {
        if self.machines[machine].running.remove(&lease).is_none() {
            return;
        }
        self.check.ended(machine, lease, self.now_ms, status);
        let error = if status == Status::Failed { FAILED } else { "" };
        let started_at_ms = self.now_ms;
        let ended = Ended { output_bytes: OUTPUT.len() as u64, ..Ended::without_run(status, error, started_at_ms) };
        self.handle(machine, Input::Lease(LeaseEvent::Ended { lease, ended, tail: OUTPUT.to_vec() }));
    }
}
