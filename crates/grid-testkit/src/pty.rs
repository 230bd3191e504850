//! Runs a command on its own terminal and returns every byte that it wrote there.
//!
//! [`crate::Terminal`] shows the screen after the terminal has processed every control code; this module returns the codes
//! themselves.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::wait::{LIMIT, wait_until};

/// The bytes that one run wrote to its terminal: stdout and stderr, in the order of their writing.
#[derive(Debug)]
pub struct Typed {
    pub code: i32,
    pub text: String,
}

/// Runs a command to its end, with stdin, stdout and stderr on a new terminal of 160×50.
///
/// # Panics
/// When no terminal is available, or the command hangs.
pub fn on_terminal(mut command: Command) -> Typed {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
    let path = ptsname(&master, Vec::new()).expect("its path");
    let slave = open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("its other end");
    let size = Winsize { ws_row: 50, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).expect("its size");
    let end = |slave: &OwnedFd| slave.try_clone().expect("a descriptor");
    command.env("TERM", "xterm").stdin(end(&slave)).stdout(end(&slave)).stderr(end(&slave));
    let mut child = command.spawn().expect("it starts");
    // Only the child has it open now: the end of its output is the end of the file.
    drop((command, slave));
    let reader = std::thread::spawn(move || {
        let (mut master, mut bytes, mut piece) = (File::from(master), Vec::new(), vec![0; 65_536]);
        // A terminal without its other end answers EIO.
        while let Ok(n @ 1..) = master.read(&mut piece) {
            bytes.extend_from_slice(&piece[..n]);
        }
        bytes
    });
    let status = wait_until("the end of a command on a terminal", 2 * LIMIT, || match child.try_wait() {
        Ok(Some(status)) => Ok(status),
        other => Err(format!("{other:?}")),
    });
    let bytes = reader.join().expect("the reader");
    Typed { code: status.code().unwrap_or(-1), text: String::from_utf8_lossy(&bytes).into_owned() }
}

/// Control codes that Grid writes itself: colours, and those that redraw the live view.
const OWN: [&str; 16] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[3m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[34m",
    "\u{1b}[35m",
    "\u{1b}[36m",
    "\u{1b}[K",
    "\u{1b}[J",
    "\u{1b}[?2026h",
    "\u{1b}[?2026l",
    "\u{1b}[m",
];

impl Typed {
    /// The output without Grid's own control codes; any others came from outside.
    pub fn without_own_codes(&self) -> String {
        let mut text = self.text.replace("\r\n", "\n");
        for code in OWN {
            text = text.replace(code, "");
        }
        for rows in 1..60 {
            text = text.replace(&format!("\r\u{1b}[{rows}A"), "");
        }
        text.replace('\r', "")
    }

    /// # Panics
    /// When some of it could change the terminal, or reverse a line.
    pub fn assert_harmless(&self, what: &str) {
        let text = self.without_own_codes();
        let bad = text.chars().find(|c| {
            (c.is_control() && !matches!(c, '\n' | '\t'))
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        assert!(bad.is_none(), "{what} writes {bad:?} to a terminal: {text:?}");
    }
}
