//! Runs a headless Chromium that shows one page, and small sites on loopback for it.
//!
//! Chromium is a package of the system; `cargo xtask test` installs it. Names of sites exist for this browser only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::process::Process;

/// The browser ends when the value is dropped.
pub struct Browser {
    process: Process,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Opens `url`; `names` are pairs of a host name and its address.
    ///
    /// # Panics
    /// When there is no Chromium, with how to get one.
    pub fn open(url: &str, names: &[(&str, &str)]) -> Self {
        let profile = tempfile::tempdir().expect("temp dir");
        let rules: Vec<String> = names.iter().map(|(name, address)| format!("MAP {name} {address}")).collect();
        let mut command = Command::new(program());
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
            .arg(format!("--host-resolver-rules={}", rules.join(", ")))
            .arg(url);
        let process = Process::spawn("chromium", command, &profile.path().join("log"));
        Self { process, _profile: profile }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.process.kill9_tree();
    }
}

fn program() -> PathBuf {
    if let Some(given) = std::env::var_os("GRID_TEST_CHROMIUM") {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|file| file.is_file());
    found
        .expect("this test needs Chromium: run it by `cargo xtask test`, which installs it (or set GRID_TEST_CHROMIUM)")
}

/// A web server of pages; requests without a page are passed to `behind` unchanged, or recorded.
pub struct Site {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// `pages`: the page of each path.
    ///
    /// # Panics
    /// When the address cannot be used.
    pub fn serve(address: (&str, u16), behind: Option<u16>, pages: &[(&str, String)]) -> Self {
        let listener = TcpListener::bind(address).unwrap_or_else(|e| panic!("{address:?}: {e}"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let pages: Vec<(String, String)> =
            pages.iter().map(|(path, page)| ((*path).to_owned(), page.clone())).collect();
        let (pages, written) = (Arc::new(pages), Arc::clone(&asked));
        // Ends with the test process, as do the connections.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (pages, written) = (Arc::clone(&pages), Arc::clone(&written));
                std::thread::spawn(move || answer(stream, behind, &pages, &written));
            }
        });
        Self { asked }
    }

    /// The requested paths, with their queries.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no thread panics with it").clone()
    }
}

fn answer(stream: TcpStream, behind: Option<u16>, pages: &[(String, String)], asked: &Mutex<Vec<String>>) {
    let Ok(mut back) = stream.try_clone() else { return };
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().expect("no thread panics with it").push(path.clone());
    let page = pages.iter().find(|(at, _)| *at == path).map(|(_, page)| page.as_str());
    if let (None, Some(port)) = (page, behind) {
        return pass_on(&line, reader, back, port);
    }
    let page = page.unwrap_or_default();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        page.len()
    );
    let _ = back.write_all(head.as_bytes()).and_then(|()| back.write_all(page.as_bytes()));
    // Closed only after the request was read: a reset could overtake the page.
    let _ = back.shutdown(std::net::Shutdown::Write);
    let _ = std::io::copy(&mut reader, &mut std::io::sink());
}

fn pass_on(line: &str, mut from: BufReader<TcpStream>, mut back: TcpStream, port: u16) {
    let Ok(mut to) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let Ok(mut answers) = to.try_clone() else { return };
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = answers.read(&mut bytes) {
            if back.write_all(&bytes[..n]).is_err() {
                return;
            }
        }
        let _ = back.shutdown(std::net::Shutdown::Write);
    });
    let _ = to.write_all(line.as_bytes()).and_then(|()| std::io::copy(&mut from, &mut to).map(drop));
    let _ = to.shutdown(std::net::Shutdown::Write);
}
