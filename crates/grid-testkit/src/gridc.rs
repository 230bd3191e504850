//! Runs `gridc` as an operator does: arguments in; stdout, stderr and exit code out.

use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::bin::{bin, clean, command};
use crate::wait::{LIMIT, wait_until};

/// `gridc` bound to one controller by `GRID_SERVER`.
#[derive(Debug, Clone)]
pub struct Gridc {
    server: String,
}

/// The result of one run.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Gridc {
    pub fn new(server_url: &str) -> Self {
        Self { server: server_url.to_owned() }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it hangs or is killed by a signal.
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut gridc = command("gridc");
        gridc.args(args);
        self.run_command(gridc, args)
    }

    /// The same with a limit of address space: a process that needs more aborts, which no test takes for a refusal.
    pub fn run_within_kib(&self, memory_kib: u64, args: &[&str]) -> Ran {
        let mut shell = clean(Command::new("sh"));
        shell.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &memory_kib.to_string()]).arg(bin("gridc")).args(args);
        self.run_command(shell, args)
    }

    fn run_command(&self, mut command: Command, args: &[&str]) -> Ran {
        let mut child = Child(
            command
                .env("GRID_SERVER", &self.server)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("gridc starts"),
        );
        let stdout = read(child.0.stdout.take().expect("piped"));
        let stderr = read(child.0.stderr.take().expect("piped"));
        let what = format!("the end of gridc {args:?}");
        let status = wait_until(&what, 2 * LIMIT, || match child.0.try_wait().expect("own child") {
            Some(status) => Ok(status),
            None => Err("still running".to_owned()),
        });
        let ran = Ran {
            code: status.code().unwrap_or(-1),
            stdout: stdout.join().expect("reader"),
            stderr: stderr.join().expect("reader"),
        };
        assert_ne!(ran.code, -1, "gridc {args:?} died of a signal: {ran:?}");
        ran
    }
}

impl Ran {
    /// stdout as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("stdout is no JSON document ({e}): {self:?}"))
    }

    /// Asserts the exit code and shows everything if it is another.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Killed with the test, also when the test gave up waiting for it.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read(mut pipe: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
