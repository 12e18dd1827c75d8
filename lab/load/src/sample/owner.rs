//! Finds the processes listening on a local port: a server that the lab did not start.

use std::collections::BTreeSet;
use std::fs;

use super::process::ProcessSample;
use crate::machine::read;

/// State of a listening socket in `/proc/net/tcp` (proc(5), `TCP_LISTEN` of the kernel's headers).
const LISTENS: &str = "0A";

/// Processes that hold a listening socket of the port, without those whose parent is among them. Empty if other users'
/// processes may not be inspected.
pub fn listeners(port: u16) -> Vec<u32> {
    let mut sockets = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        sockets.extend(inodes(&read(table), port));
    }
    if sockets.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holders: BTreeSet<u32> = pids.filter(|pid| holds(*pid, &sockets)).collect();
    let is_root = |pid: &u32| {
        let parent = ProcessSample::read(*pid).map(|process| process.parent);
        parent.is_none_or(|parent| !holders.contains(&parent))
    };
    holders.iter().copied().filter(is_root).collect()
}

/// Inodes of the sockets that listen on a port, from a table of the kernel.
fn inodes(table: &str, port: u16) -> Vec<u64> {
    let ending = format!(":{port:04X}");
    let lines = table.lines().skip(1);
    let found = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let listens = words.get(3) == Some(&LISTENS);
        let ours = words.get(1)?.ends_with(&ending);
        (listens && ours).then(|| words.get(9)?.parse().ok())?
    });
    found.collect()
}

fn holds(pid: u32, sockets: &BTreeSet<u64>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let mut links = open.into_iter().flatten().flatten();
    links.any(|entry| {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        let name = link.to_string_lossy();
        let number = name
            .strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        number.is_some_and(|number| sockets.contains(&number))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_of_ours_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listeners(port), [std::process::id()]);
        drop(listener);
        assert!(!listeners(port).contains(&std::process::id()));
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n\
            1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4243 1 0 20 4 30 10 -1\n";
        assert_eq!(inodes(table, 8080), [4242]);
        assert!(inodes(table, 8081).is_empty());
    }
}
