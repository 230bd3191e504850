//! Delays, loses and repeats messages.
//!
//! Messages of one direction arrive in their order, as on a stream, but each may be lost alone, and a repeated one comes later once more:
//! more than TCP allows, because fabrics without a connection allow it.

use grid_fabric::LinkError;
use grid_types::SessionId;
use grid_worker::engine::Input;

use super::{Call, Event, Simulation};

/// How the way to one machine is used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Link {
    /// The last arrival in each direction.
    up_ms: u64,
    down_ms: u64,
    /// The next messages of each direction that are lost, or repeated, because a test wants it.
    pub(super) lose_up: u32,
    pub(super) lose_down: u32,
    pub(super) repeat_up: u32,
    pub(super) repeat_down: u32,
}

/// The fate of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives,
    IsLost,
    IsRepeated,
}

/// From the worker to its controller, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

impl Simulation {
    /// The next message between the machine and its controller is lost.
    pub fn lose_next(&mut self, machine: usize, way: Way) {
        let link = &mut self.links[machine];
        match way {
            Way::Up => link.lose_up += 1,
            Way::Down => link.lose_down += 1,
        }
    }

    /// The next message between the machine and its controller arrives twice.
    pub fn repeat_next(&mut self, machine: usize, way: Way) {
        let link = &mut self.links[machine];
        match way {
            Way::Up => link.repeat_up += 1,
            Way::Down => link.repeat_down += 1,
        }
    }

    pub(super) fn fate(&mut self, machine: usize, way: Way) -> Fate {
        let (lost, repeated) = (self.faults.lost, self.faults.repeated);
        let link = &mut self.links[machine];
        let (lose, repeat) = match way {
            Way::Up => (&mut link.lose_up, &mut link.repeat_up),
            Way::Down => (&mut link.lose_down, &mut link.repeat_down),
        };
        if *lose > 0 {
            *lose -= 1;
            return Fate::IsLost;
        }
        if *repeat > 0 {
            *repeat -= 1;
            return Fate::IsRepeated;
        }
        if self.chance(lost) {
            Fate::IsLost
        } else if self.chance(repeated) {
            Fate::IsRepeated
        } else {
            Fate::Arrives
        }
    }

    /// When a message that is sent now arrives.
    pub(super) fn arrival_ms(&mut self, machine: usize, way: Way) -> u64 {
        let slow = self.faults.slow;
        let delay_ms = if self.chance(slow) { self.dice.roll(8_000) } else { 1 + self.dice.roll(5) };
        let at_ms = self.now_ms + delay_ms;
        let link = &mut self.links[machine];
        let last_ms = match way {
            Way::Up => &mut link.up_ms,
            Way::Down => &mut link.down_ms,
        };
        *last_ms = (*last_ms).max(at_ms);
        *last_ms
    }

    pub(super) fn later_ms(&mut self) -> u64 {
        self.now_ms + 1 + self.dice.roll(5_000)
    }

    /// A call of a worker. One that is lost is answered by nobody, which the worker notices.
    pub(super) fn send_up(&mut self, machine: usize, call: Call) {
        let process = self.machines[machine].process;
        let fate = self.fate(machine, Way::Up);
        let at_ms = self.arrival_ms(machine, Way::Up);
        self.note(|all| format!("{} -> {fate:?} {call:?}", all.machines[machine].name));
        match (fate, call) {
            (Fate::IsLost, Call::Message { .. }) => {}
            (Fate::IsLost, call) => {
                let noticed_ms = at_ms + 1_000;
                let input = no_answer(&call);
                // It may arrive, and only its answer is lost.
                if self.chance(50) {
                    self.schedule.at(at_ms, Event::ToController { machine, process: 0, call });
                }
                self.schedule.at(noticed_ms, Event::ToWorker { machine, process, input: Box::new(input) });
            }
            (Fate::IsRepeated, Call::Message { session, message }) => {
                let copy = Call::Message { session, message: message.clone() };
                let later_ms = self.later_ms().max(at_ms);
                self.schedule.at(later_ms, Event::ToController { machine, process, call: copy });
                let call = Call::Message { session, message };
                self.schedule.at(at_ms, Event::ToController { machine, process, call });
            }
            (_, call) => self.schedule.at(at_ms, Event::ToController { machine, process, call }),
        }
    }

    /// To the process that the machine's worker is now.
    pub(super) fn send_down(&mut self, machine: usize, input: Input) {
        let process = self.machines[machine].process;
        self.send_down_to(machine, process, input);
    }

    pub(super) fn send_down_to(&mut self, machine: usize, process: u64, input: Input) {
        let fate = self.fate(machine, Way::Down);
        let at_ms = self.arrival_ms(machine, Way::Down);
        self.note(|all| format!("{} <- {fate:?} {input:?}", all.machines[machine].name));
        match (fate, input) {
            (Fate::IsLost, Input::Received { .. }) => {}
            (Fate::IsLost, input) => {
                let (input, at_ms) = match input {
                    Input::Registered { .. } => (no_registration(), at_ms + 1_000),
                    Input::Opened { session } => (broken(session), at_ms + 1_000),
                    other => (other, at_ms),
                };
                self.schedule.at(at_ms, Event::ToWorker { machine, process, input: Box::new(input) });
            }
            (Fate::IsRepeated, Input::Received { session, message }) => {
                let copy = Input::Received { session, message: message.clone() };
                let later_ms = self.later_ms().max(at_ms);
                self.schedule.at(later_ms, Event::ToWorker { machine, process, input: Box::new(copy) });
                let input = Box::new(Input::Received { session, message });
                self.schedule.at(at_ms, Event::ToWorker { machine, process, input });
            }
            (_, input) => self.schedule.at(at_ms, Event::ToWorker { machine, process, input: Box::new(input) }),
        }
    }
}

fn no_answer(call: &Call) -> Input {
    match call {
        Call::Register(_) => no_registration(),
        Call::Open { credential, .. } => broken(credential.session),
        Call::Message { session, .. } => broken(*session),
    }
}

fn no_registration() -> Input {
    Input::NotRegistered(LinkError::Unreachable("no answer in time".to_owned()))
}

pub(super) fn broken(session: SessionId) -> Input {
    Input::Broken { session, reason: "the connection was lost".to_owned() }
}
