//! Reads the CPU time, memory and disk usage of a process under test from the kernel.

use anyhow::{Context, anyhow};
use std::path::Path;

/// User and system time of all its threads, those that have ended included.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).ok_or_else(|| anyhow!("{path} has an unknown form"))?;
    Ok(float(ticks) / float(rustix::param::clock_ticks_per_second()))
}

/// The name of the process may contain anything, also spaces and parentheses: fields are counted after the last one.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident memory.
pub fn rss_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok());
    kib.ok_or_else(|| anyhow!("{path} has an unknown form"))
}

/// The space that the files of a folder use; files that disappear meanwhile are skipped.
pub fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// For figures that are divided: all of them are far below 53 bits.
#[allow(clippy::cast_precision_loss)]
pub fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, cpu_ticks, rss_kib};

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(cpu_ticks("7 (a"), None);
    }

    #[test]
    fn this_process_has_time_and_memory() {
        assert!(cpu_seconds(std::process::id()).is_ok());
        assert!(rss_kib(std::process::id()).unwrap() > 100);
        assert!(rss_kib(u32::MAX).is_err());
    }
}
