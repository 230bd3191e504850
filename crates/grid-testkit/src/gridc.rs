//! `gridc` as a person runs it: arguments in; stdout, stderr and exit code out.

use std::process::Stdio;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::bin::command;
use crate::wait::{LIMIT, wait_until};

/// `gridc` bound to one controller by `GRID_SERVER`.
#[derive(Debug, Clone)]
pub struct Gridc {
    server: String,
}

/// What one run left.
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
        let mut child = command("gridc")
            .args(args)
            .env("GRID_SERVER", &self.server)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gridc starts");
        let stdout = read(child.stdout.take().expect("piped"));
        let stderr = read(child.stderr.take().expect("piped"));
        let what = format!("the end of gridc {args:?}");
        let status = wait_until(&what, 2 * LIMIT, || match child.try_wait().expect("own child") {
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

fn read(mut pipe: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
