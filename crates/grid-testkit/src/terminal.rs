//! Runs a real terminal of a chosen size: `tmux` with its own server.
//!
//! The screen is read from the terminal itself, after it has wrapped and redrawn lines. Nothing is installed: without `tmux`
//! the test prints that it was skipped.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A shell in a terminal.
pub struct Terminal {
    /// Name of the server; no other process uses it.
    socket: String,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl Terminal {
    /// Starts one with a plain shell whose prompt is `ready> `; `None` without tmux.
    ///
    /// # Panics
    /// When tmux exists but does not start.
    pub fn start(columns: u32, rows: u32, env: &[(&str, &str)]) -> Option<Self> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            eprintln!("skipped: no tmux on this machine, so nothing was tested in a real terminal");
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: format!("grid-test-{}-{number}", std::process::id()) };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut args = vec!["-f", "/dev/null", "new-session", "-d", "-s", "test", "-x", &columns, "-y", &rows];
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for pair in &env {
            args.extend(["-e", pair]);
        }
        args.extend(["-e", "PS1=ready> ", "-e", "ENV=", "sh"]);
        terminal.tmux(&args);
        Some(terminal)
    }

    /// Types a line and Enter.
    pub fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-t", "test", "-l", line]);
        self.key("Enter");
    }

    /// Presses a key by tmux's name for it, like `C-c`.
    pub fn key(&self, key: &str) {
        self.tmux(&["send-keys", "-t", "test", key]);
    }

    pub fn resize(&self, columns: u32, rows: u32) {
        self.tmux(&["resize-window", "-t", "test", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// What is on the screen, line by line, without the empty ones at its end.
    pub fn screen(&self) -> Vec<String> {
        let text = self.tmux(&["capture-pane", "-p", "-t", "test"]);
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = Command::new("tmux").args(["-L", &self.socket]).args(args).env_remove("TMUX").output();
        let output = output.expect("tmux runs");
        assert!(output.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its own server, by its own socket.
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).stderr(Stdio::null()).status();
    }
}
