//! Local ports that closed connections still hold: the side that closes first keeps the port in TIME_WAIT for a minute
//! (RFC 9293, section 3.6.1), and cannot use it for another connection to the same destination.

use std::collections::HashMap;

use crate::machine::read;

/// The state TIME_WAIT in `/proc/net/tcp`.
const TIME_WAIT: &str = "06";

/// How long a socket stays in TIME_WAIT, in ticks of the table: a minute of hundredths.
const LENGTH_TICKS: u64 = 6_000;

/// Where the kernel may use such ports again, it does so after a second.
const REUSE_TICKS: u64 = 100;

/// Ports that connections in TIME_WAIT hold, to the destination for which there are most of them; 0 if the kernel does not report
/// it.
pub fn held_ports() -> u64 {
    let reuse = read("/proc/sys/net/ipv4/tcp_tw_reuse");
    let stamps = read("/proc/sys/net/ipv4/tcp_timestamps");
    let reused = matches!(reuse.trim(), "1" | "2") && stamps.trim() != "0";
    held(&(read("/proc/net/tcp") + &read("/proc/net/tcp6")), reused)
}

/// Counts them in a text such as `/proc/net/tcp`. `reused` says that the kernel uses ports again after a second. Its columns are
/// number, local address, remote address, state, queues, timer with the ticks that are left, and more (proc_net_tcp(5)).
fn held(text: &str, reused: bool) -> u64 {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(2);
        let (Some(remote), Some(TIME_WAIT)) = (words.next(), words.next()) else {
            continue;
        };
        let timer = words.nth(1).and_then(|timer| timer.split_once(':'));
        let left = timer.and_then(|(_, ticks)| u64::from_str_radix(ticks, 16).ok());
        let age = LENGTH_TICKS.saturating_sub(left.unwrap_or(LENGTH_TICKS));
        if !reused || age < REUSE_TICKS {
            *counts.entry(remote).or_insert(0) += 1;
        }
    }
    counts.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn ports_are_counted_for_the_destination_with_most_of_them() {
        let line = |local: &str, remote: &str, state: &str, ticks: u32| {
            format!(
                "   2: {local} {remote} {state} 00000000:00000000 03:{ticks:08X} 00000000     0        0 0 3 00\n"
            )
        };
        let server = "0100007F:423B";
        let mut text = String::from("  sl  local_address rem_address   st tx_queue\n");
        for (local, ticks) in [("0100007F:BFEC", 5_950), ("0100007F:BFEE", 5_000)] {
            text += &line(local, server, "06", ticks);
            // The server's side of others: each is another destination.
            text += &line(server, local, "06", ticks);
        }
        text += &line("0100007F:C000", server, "01", 0);
        assert_eq!((held(&text, false), held(&text, true)), (2, 1));
        assert_eq!(held("", false), 0);
    }

    #[test]
    fn the_kernels_own_table_is_read() {
        const COUNT: usize = 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..COUNT {
            let client = TcpStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            // The client closes first, and the server after it.
            drop(client);
            assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
        }
        assert!(held(&read("/proc/net/tcp"), false) >= COUNT as u64);
    }
}
