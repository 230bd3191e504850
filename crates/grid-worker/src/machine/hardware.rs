//! Finds out about the machine what targets can ask for: operating system, kernel, processor, memory, disks, network,
//! virtualization. Reads files only (`/etc/os-release`, `/proc`, `/sys`); no program is run.
//!
//! A fact that a machine does not tell is left out. Values are cut to what a fact may hold.
//! Not here: how much of it is registered (`session::facts`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use grid_types::limits::MAX_FACT_BYTES;
use grid_types::node::is_fact;

/// Of one file: `/proc/cpuinfo` of a machine with a thousand processors fits.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Disks and interfaces that are listed one by one.
const MAX_LISTED: usize = 8;
/// Addresses of one interface and family.
const MAX_ADDRESSES: usize = 4;

/// Facts in the order of their importance: what does not fit is left out from the end.
pub(crate) fn read() -> Vec<(String, String)> {
    Machine { root: PathBuf::from("/"), addresses: addresses() }.facts()
}

struct Machine {
    /// `/`, but for tests.
    root: PathBuf,
    addresses: Vec<(String, IpAddr)>,
}

impl Machine {
    fn facts(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.system(&mut found);
        self.processor(&mut found);
        self.virtualization(&mut found);
        self.disks(&mut found);
        self.network(&mut found);
        let cut = |(key, value): (String, String)| (key, plain(&value));
        found.into_iter().map(cut).filter(|(key, value)| is_fact(key, value) && !value.is_empty()).collect()
    }

    fn system(&self, found: &mut Vec<(String, String)>) {
        let release = self.text("etc/os-release").or_else(|| self.text("usr/lib/os-release")).unwrap_or_default();
        let words: BTreeMap<&str, &str> = release.lines().filter_map(|line| line.split_once('=')).collect();
        let word = |key: &str| words.get(key).map(|value| value.trim().trim_matches(['"', '\'']).to_owned());
        let id = word("ID");
        let family = word("ID_LIKE").and_then(|like| like.split_whitespace().next().map(str::to_owned));
        put(found, "os.id", id.clone());
        put(found, "os.version", word("VERSION_ID"));
        put(found, "os.family", family.or(id));
        put(found, "os.name", word("PRETTY_NAME").or_else(|| word("NAME")));
        put(found, "kernel.release", self.line("proc/sys/kernel/osrelease"));
        put(found, "kernel.name", self.line("proc/sys/kernel/ostype"));
    }

    fn processor(&self, found: &mut Vec<(String, String)>) {
        let cpus = self.text("proc/cpuinfo").unwrap_or_default();
        let values = |name: &'static str| {
            cpus.lines().filter_map(|line| line.split_once(':')).filter(move |(key, _)| key.trim() == name)
        };
        let count = values("processor").count();
        put(found, "cpu.count", (count > 0).then(|| count.to_string()));
        put(found, "cpu.model", values("model name").next().map(|(_, model)| model.trim().to_owned()));
        let memory = self.text("proc/meminfo").unwrap_or_default();
        let bytes = |name: &str| {
            let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kibibytes.saturating_mul(1_024).to_string())
        };
        put(found, "memory.total_bytes", bytes("MemTotal"));
        put(found, "memory.swap_bytes", bytes("SwapTotal"));
    }

    fn virtualization(&self, found: &mut Vec<(String, String)>) {
        let vendor = self.line("sys/class/dmi/id/sys_vendor");
        let product = self.line("sys/class/dmi/id/product_name");
        let container = self.container();
        let hypervisor = || self.hypervisor(&format!("{vendor:?} {product:?}"));
        put(found, "virtualization.kind", Some(container.unwrap_or_else(hypervisor)));
        put(found, "system.vendor", vendor);
        put(found, "system.product", product);
    }

    fn container(&self) -> Option<String> {
        let has = |path: &str| self.root.join(path).exists();
        let told = self.line("run/systemd/container").filter(|kind| !kind.is_empty());
        told.or_else(|| has("run/.containerenv").then(|| "podman".to_owned()))
            .or_else(|| has(".dockerenv").then(|| "docker".to_owned()))
    }

    /// By what the firmware says; `vm` where only the processor says that there is a hypervisor.
    fn hypervisor(&self, firmware: &str) -> String {
        let known = [
            ("KVM", "kvm"),
            ("QEMU", "kvm"),
            ("VMware", "vmware"),
            ("VirtualBox", "virtualbox"),
            ("Microsoft Corporation\") Some(\"Virtual Machine", "hyperv"),
            ("Xen", "xen"),
            ("Amazon EC2", "amazon"),
            ("Google Compute Engine", "google"),
            ("OpenStack", "openstack"),
            ("Parallels", "parallels"),
        ];
        let by_firmware = known.iter().find(|(sign, _)| firmware.contains(sign)).map(|(_, kind)| (*kind).to_owned());
        let is_guest = || {
            let cpus = self.text("proc/cpuinfo").unwrap_or_default();
            let mut flags = cpus.lines().filter(|line| line.starts_with("flags"));
            flags.next().is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
        };
        by_firmware
            .or_else(|| self.line("sys/hypervisor/type").filter(|kind| !kind.is_empty()))
            .unwrap_or_else(|| if is_guest() { "vm" } else { "none" }.to_owned())
    }

    /// Drives of the machine: not loop devices, memory, or what is composed of others.
    fn disks(&self, found: &mut Vec<(String, String)>) {
        let disks: Vec<(String, u64)> = self
            .entries("sys/block")
            .into_iter()
            .filter_map(|name| {
                let folder = format!("sys/block/{name}");
                let is_drive = self.root.join(&folder).join("device").exists();
                let stays = self.line(&format!("{folder}/removable")).as_deref() != Some("1");
                let sectors: u64 = self.line(&format!("{folder}/size"))?.parse().ok()?;
                (is_drive && stays && sectors > 0).then(|| (name, sectors.saturating_mul(512)))
            })
            .collect();
        let total = disks.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        put(found, "disk.count", Some(disks.len().to_string()));
        put(found, "disk.total_bytes", Some(total.to_string()));
        for (name, bytes) in disks.iter().take(MAX_LISTED) {
            put(found, &format!("disk.{name}.size_bytes"), Some(bytes.to_string()));
        }
    }

    /// Interfaces with an address first; `lo` says nothing about a machine.
    fn network(&self, found: &mut Vec<(String, String)>) {
        let mut names = self.entries("sys/class/net");
        names.retain(|name| name != "lo");
        let of = |name: &str, v4: bool| {
            let own = self.addresses.iter().filter(|(of, ip)| of == name && ip.is_ipv4() == v4);
            own.take(MAX_ADDRESSES).map(|(_, ip)| ip.to_string()).collect::<Vec<_>>().join(",")
        };
        names.sort_by_key(|name| of(name, true).is_empty());
        put(found, "network.count", Some(names.len().to_string()));
        for name in names.iter().take(MAX_LISTED) {
            put(found, &format!("network.{name}.ipv4"), Some(of(name, true)));
            put(found, &format!("network.{name}.ipv6"), Some(of(name, false)));
            let mac = self.line(&format!("sys/class/net/{name}/address"));
            put(found, &format!("network.{name}.mac"), mac.filter(|mac| mac != "00:00:00:00:00:00"));
        }
    }

    /// Sorted names in a folder.
    fn entries(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(folder)) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn line(&self, path: &str) -> Option<String> {
        Some(self.text(path)?.lines().next().unwrap_or_default().trim().to_owned())
    }

    fn text(&self, path: &str) -> Option<String> {
        read_file(&self.root.join(path))
    }
}

fn read_file(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn put(found: &mut Vec<(String, String)>, key: &str, value: Option<String>) {
    found.extend(value.map(|value| (key.to_owned(), value)));
}

/// Without control characters, and no longer than a fact may be.
fn plain(value: &str) -> String {
    let mut plain = String::new();
    for c in value.trim().chars().filter(|c| !c.is_control()) {
        if plain.len() + c.len_utf8() > MAX_FACT_BYTES {
            break;
        }
        plain.push(c);
    }
    plain.trim_end().to_owned()
}

/// Of every interface that is up, without link-local ones, which say nothing about the machine.
fn addresses() -> Vec<(String, IpAddr)> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let mut found: Vec<_> = interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            let v6 = address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip()));
            Some((interface.interface_name, v4.or(v6)?))
        })
        .filter(|(_, ip)| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::{Machine, read};
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    fn machine(files: &[(&str, &str)], folders: &[&str]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folders.iter().for_each(|folder| fs::create_dir_all(root.path().join(folder)).unwrap());
        let addresses = ["10.0.0.7", "10.0.0.8", "fd00::7"].map(|ip| ("eth0".to_owned(), ip.parse().unwrap()));
        let machine = Machine { root: root.path().to_owned(), addresses: addresses.to_vec() };
        (root, machine)
    }

    #[test]
    fn a_machine_is_read_from_its_files() {
        let release =
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n";
        let files = [
            ("etc/os-release", release),
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/sys/kernel/ostype", "Linux\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Chip 9000 \u{7}\nflags\t: fpu hypervisor\n\nprocessor\t: 1\n",
            ),
            ("proc/meminfo", "MemTotal:       16384 kB\nSwapTotal:          0 kB\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
            ("sys/block/vda/size", "2048\n"),
            ("sys/block/vda/removable", "0\n"),
            ("sys/block/loop0/size", "99\n"),
            ("sys/block/sr0/size", "99\n"),
            ("sys/block/sr0/removable", "1\n"),
            ("sys/class/net/eth0/address", "52:54:00:00:00:01\n"),
            ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
            ("sys/class/net/Bad Name/address", "52:54:00:00:00:02\n"),
        ];
        let (_root, machine) = machine(&files, &["sys/block/vda/device", "sys/block/sr0/device"]);
        let found = machine.facts();
        let facts: BTreeMap<_, _> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let expected = [
            ("os.id", "debian"),
            ("os.version", "12"),
            ("os.family", "debian"),
            ("os.name", "Debian GNU/Linux 12 (bookworm)"),
            ("kernel.release", "6.1.0-18-amd64"),
            ("kernel.name", "Linux"),
            ("cpu.count", "2"),
            ("cpu.model", "Chip 9000"),
            ("memory.total_bytes", "16777216"),
            ("memory.swap_bytes", "0"),
            ("virtualization.kind", "kvm"),
            ("system.vendor", "QEMU"),
            ("system.product", "Standard PC"),
            ("disk.count", "1"),
            ("disk.total_bytes", "1048576"),
            ("disk.vda.size_bytes", "1048576"),
            ("network.count", "2"),
            ("network.eth0.ipv4", "10.0.0.7,10.0.0.8"),
            ("network.eth0.ipv6", "fd00::7"),
            ("network.eth0.mac", "52:54:00:00:00:01"),
        ];
        assert_eq!(facts, expected.into());
        assert_eq!(found.len(), expected.len(), "each once");
    }

    #[test]
    fn containers_and_hypervisors_are_told_apart() {
        let kind = |files: &[(&str, &str)]| {
            let (_root, machine) = machine(files, &[]);
            machine.facts().into_iter().find(|(key, _)| key == "virtualization.kind").unwrap().1
        };
        let (vendor, product) = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name");
        assert_eq!(kind(&[]), "none");
        assert_eq!(kind(&[("run/systemd/container", "lxc\n"), (vendor, "QEMU\n")]), "lxc");
        assert_eq!(kind(&[(".dockerenv", "")]), "docker");
        assert_eq!(kind(&[("proc/cpuinfo", "flags\t: fpu hypervisor sse\n")]), "vm");
        assert_eq!(kind(&[("sys/hypervisor/type", "xen\n")]), "xen");
        assert_eq!(kind(&[(vendor, "Microsoft Corporation\n"), (product, "Virtual Machine\n")]), "hyperv");
        assert_eq!(kind(&[(vendor, "Microsoft Corporation\n"), (product, "Surface\n")]), "none");
    }

    #[test]
    fn hostile_files_are_cut() {
        let (_root, machine) =
            machine(&[("etc/os-release", &format!("ID={}\nNAME=\"a\u{1b}[2Jb\"", "ü".repeat(9_000)))], &[]);
        let facts: BTreeMap<_, _> = machine.facts().into_iter().collect();
        assert_eq!((facts["os.id"].len(), facts["os.name"].as_str()), (254, "a[2Jb"));
    }

    #[test]
    fn this_machine_tells_its_kernel() {
        let facts: BTreeMap<_, _> = read().into_iter().collect();
        assert_eq!(Path::new("/proc/sys/kernel/osrelease").exists(), facts.contains_key("kernel.release"));
    }
}
