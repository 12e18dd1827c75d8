//! Facts about the machine, for the header of every result. Whether it is fit for benchmarking is checked by `doctor`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::result::Machine;

/// Kernel settings that change what a load can do, below `/proc/sys`.
const SETTINGS: [&str; 9] = [
    "net/core/somaxconn",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_congestion_control",
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "fs/file-max",
];

/// Collects the facts about this machine.
pub fn look() -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let uname = rustix::system::uname();
    Machine {
        cpu_model: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown".into()),
        cpus: processors().len(),
        memory_bytes: memory_bytes(),
        kernel: uname.release().to_string_lossy().into_owned(),
        os: os_name(),
        hypervisor: hypervisor(&cpuinfo),
        open_files_max: open_files().1,
        settings: settings(),
        placement: BTreeMap::new(),
    }
}

/// Identifies the network stack of this process: the kernel since it booted, and the network namespace in it. Two processes
/// reach the same servers at loopback addresses only if theirs are equal.
pub fn network() -> String {
    let boot = read("/proc/sys/kernel/random/boot_id");
    let namespace = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// TCP connections that listeners of this machine have accepted so far; `None` if the kernel does not report it.
pub fn accepted() -> Option<u64> {
    let text = read("/proc/net/snmp");
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    pairs
        .find(|(name, _)| *name == "PassiveOpens")?
        .1
        .parse()
        .ok()
}

/// Caches of a CPU: more than any has.
const CACHES_MAX: usize = 16;

/// Rounds of the fixed piece of work: about a millisecond.
const WORK_ROUNDS: u64 = 400_000;

/// How often the work is repeated: the shortest time counts, so that another program briefly taking the CPU does not
/// matter.
const WORK_TRIES: usize = 5;

/// Microseconds that a fixed piece of work takes now. It is arithmetic in registers, so it measures the speed of the
/// CPU and nothing of memory.
pub fn work_us() -> f64 {
    let once = |_| {
        let begin = Instant::now();
        let mut value = std::hint::black_box(1_u64);
        for round in 0..WORK_ROUNDS {
            value = value.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round;
        }
        std::hint::black_box(value);
        begin.elapsed().as_secs_f64() * 1e6
    };
    (0..WORK_TRIES).map(once).fold(f64::INFINITY, f64::min)
}

/// The CPUs this process may use, by number.
pub fn processors() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect(),
        Err(_) => vec![0],
    }
}

/// CPUs in groups that share a core: the threads of one core slow each other.
pub fn cores(cpus: &[usize]) -> Vec<Vec<usize>> {
    group(cpus, |cpu| {
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        read(&format!("{topology}/thread_siblings_list"))
    })
}

/// Groups CPUs by the text that names the threads of their core; where there is none, each is a core of its own.
fn group(cpus: &[usize], siblings: impl Fn(usize) -> String) -> Vec<Vec<usize>> {
    let mut cores: Vec<(String, Vec<usize>)> = Vec::new();
    for cpu in cpus {
        let name = siblings(*cpu);
        let known = cores
            .iter_mut()
            .find(|(core, _)| !name.is_empty() && *core == name);
        match known {
            Some((_, threads)) => threads.push(*cpu),
            None => cores.push((name, vec![*cpu])),
        }
    }
    cores.into_iter().map(|(_, threads)| threads).collect()
}

/// Soft and hard limit of open files.
pub fn open_files() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    let or_all = |value: Option<u64>| value.unwrap_or(u64::MAX);
    (or_all(limit.current), or_all(limit.maximum))
}

/// Raises the open file limit of this process and its children as far as the system allows. Returns the limit in
/// effect.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this is refused, the soft limit stays and is returned.
    let _ = setrlimit(Resource::Nofile, raised);
    open_files().0
}

/// First and last port of the kernel's ephemeral range.
pub fn local_ports() -> (u16, u16) {
    let text = read("/proc/sys/net/ipv4/ip_local_port_range");
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => (first, last),
        _ => (32_768, 60_999),
    }
}

/// The text of a file below `/proc` or `/sys`; empty if it cannot be read.
pub fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first `name : value` in a text such as `/proc/cpuinfo`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_string())
}

fn memory_bytes() -> u64 {
    let total = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let kib = total.split_whitespace().next().and_then(|n| n.parse().ok());
    kib.unwrap_or(0_u64) * 1024
}

fn os_name() -> String {
    let text = read("/etc/os-release");
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| "unknown".into(), |name| name.trim_matches('"').into())
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let named = read("/sys/hypervisor/type");
    if !named.trim().is_empty() {
        return Some(named.trim().to_string());
    }
    let flags = field(cpuinfo, "flags").unwrap_or_default();
    let virtual_cpu = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let product = read("/sys/class/dmi/id/product_name");
    virtual_cpu.then(|| match product.trim() {
        "" => "a virtual machine".into(),
        name => name.to_string(),
    })
}

fn settings() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in SETTINGS {
        let value = read(&format!("/proc/sys/{name}"));
        if !value.is_empty() {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            found.insert(name.replace('/', "."), value);
        }
    }
    let all = processors();
    found.insert("threads per core".into(), {
        let threads = cores(&all).iter().map(Vec::len).max().unwrap_or(1);
        threads.to_string()
    });
    let named = [
        ("caches", caches()),
        ("mitigations", mitigations()),
        (
            "microcode",
            field(&read("/proc/cpuinfo"), "microcode").unwrap_or_default(),
        ),
        (
            "governor",
            read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ),
    ];
    for (name, value) in named {
        if !value.trim().is_empty() {
            found.insert(name.into(), value.trim().into());
        }
    }
    found
}

/// The caches of the first CPU, such as `L1d 32K, L2 1024K`.
fn caches() -> String {
    let cache = |at: usize| {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{at}");
        let part = |name: &str| read(&format!("{folder}/{name}")).trim().to_string();
        let kind = match part("type").as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let size = part("size");
        (!size.is_empty()).then(|| format!("L{}{kind} {size}", part("level")))
    };
    let found: Vec<String> = (0..CACHES_MAX).map_while(cache).collect();
    found.join(", ")
}

/// The weaknesses of the CPU that the kernel works around, which costs system calls and switches time.
fn mitigations() -> String {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let entries = entries.into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let text = read(&entry.path().to_string_lossy());
            let how = text.trim().strip_prefix("Mitigation: ")?;
            let first = how.split([';', ',']).next().unwrap_or(how);
            Some(format!("{} ({first})", entry.file_name().to_string_lossy()))
        })
        .collect();
    found.sort();
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let machine = look();
        assert!(machine.cpus > 0 && machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty());
        let (first, last) = local_ports();
        assert!(first < last);
    }

    #[test]
    fn processors_are_grouped_by_their_cores() {
        // As Linux usually numbers them: first the first threads of all cores, then the second ones.
        let of_four = |cpu: usize| format!("{},{}\n", cpu % 4, cpu % 4 + 4);
        let cores = group(&[0, 1, 2, 3, 4, 5, 6, 7], of_four);
        assert_eq!(cores, [vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]);
        // In a container with some of them, or without the files.
        assert_eq!(group(&[1, 5, 6], of_four), [vec![1, 5], vec![6]]);
        assert_eq!(group(&[0, 1], |_| String::new()), [vec![0], vec![1]]);
    }

    #[test]
    fn fields_of_such_files_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: B\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(text, "flags"), None);
    }
}
