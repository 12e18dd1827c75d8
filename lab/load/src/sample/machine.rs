//! The whole machine, as `/proc` shows it.

use crate::fitness::CpuTimes;
use crate::machine::read;

/// The machine at one moment; all but `time_wait` are counters since boot.
#[derive(Clone, Debug, Default)]
pub struct MachineSample {
    /// CPU time.
    pub cpu: CpuTimes,
    /// Microseconds in which some task waited for a CPU; `None` if the kernel does not report it.
    pub pressure_cpu_us: Option<u64>,
    /// The same for memory.
    pub pressure_memory_us: Option<u64>,
    /// The same for I/O.
    pub pressure_io_us: Option<u64>,
    /// Connections that arrived while a listener's queue was full.
    pub listen_overflows: u64,
    /// Connections that a listener dropped.
    pub listen_drops: u64,
    /// TCP segments retransmitted.
    pub tcp_retransmits: u64,
    /// Sockets in TIME_WAIT.
    pub time_wait: u64,
    /// Bytes received and sent over network cards.
    pub network_bytes: u64,
    /// Bytes sent over loopback.
    pub loopback_bytes: u64,
}

impl MachineSample {
    /// Takes a sample.
    pub fn read() -> Self {
        let netstat = read("/proc/net/netstat");
        let snmp = read("/proc/net/snmp");
        let sockstat = read("/proc/net/sockstat");
        let (network_bytes, loopback_bytes) = interfaces(&read("/proc/net/dev"));
        MachineSample {
            cpu: CpuTimes::read(),
            pressure_cpu_us: stalled_us(&read("/proc/pressure/cpu")),
            pressure_memory_us: stalled_us(&read("/proc/pressure/memory")),
            pressure_io_us: stalled_us(&read("/proc/pressure/io")),
            listen_overflows: paired(&netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: paired(&netstat, "TcpExt:", "ListenDrops"),
            tcp_retransmits: paired(&snmp, "Tcp:", "RetransSegs"),
            time_wait: after(&sockstat, "TCP:", "tw"),
            network_bytes,
            loopback_bytes,
        }
    }
}

/// Bytes received and sent over network cards, and sent over loopback (`lo`), where each byte is also received. From a table
/// with a line `NAME: RECEIVED` and seven more numbers, then `SENT` for each interface (proc_net(5)).
fn interfaces(text: &str) -> (u64, u64) {
    let (mut cards, mut loopback) = (0, 0);
    for (name, numbers) in text.lines().filter_map(|line| line.split_once(':')) {
        let mut numbers = numbers
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0));
        let received: u64 = numbers.next().unwrap_or(0);
        let sent: u64 = numbers.nth(7).unwrap_or(0);
        match name.trim() {
            "lo" => loopback += sent,
            _ => cards += received + sent,
        }
    }
    (cards, loopback)
}

/// Parses `some avg10=… total=N`.
fn stalled_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

/// Looks up a value in two lines with the same first word: names, then numbers.
fn paired(text: &str, first: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(first));
    let (Some(names), Some(numbers)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
    let found = pairs.find(|(one, _)| *one == name);
    found
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

/// Looks up a value in a line of names, each followed by its number.
fn after(text: &str, first: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(first));
    let mut words = line.unwrap_or_default().split_whitespace();
    words.find(|word| *word == name);
    words
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        assert_eq!(
            stalled_us("some avg10=0.00 avg60=0.00 total=123\nfull total=4\n"),
            Some(123)
        );
        assert_eq!(stalled_us(""), None);
        let devices = "Inter-|   Receive      |  Transmit\n face |bytes packets\n    lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n\
                       \x20 eth0: 5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n  eth1:1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n";
        assert_eq!(interfaces(devices), (15, 10));
        let text = "TcpExt: A ListenOverflows B\nTcpExt: 1 7 2\nIpExt: C\nIpExt: 9\n";
        assert_eq!(paired(text, "TcpExt:", "ListenOverflows"), 7);
        assert_eq!(paired(text, "TcpExt:", "D"), 0);
        assert_eq!(
            after("TCP: inuse 3 orphan 0 tw 12 alloc 4\n", "TCP:", "tw"),
            12
        );
    }
}
