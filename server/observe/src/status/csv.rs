//! The snapshot as CSV, with the names that the columns have in HAProxy's statistics. Columns that sluice has no value
//! for are absent; `reasons`, `p50` and `p99` (seconds) are ours.

use std::fmt::Write;

use super::snapshot::{Snapshot, Traffic, UpstreamRow};

/// The columns. HAProxy's first line begins with `# `, and each of its lines ends with a comma.
const COLUMNS: [&str; 22] = [
    "pxname",
    "svname",
    "scur",
    "stot",
    "bin",
    "bout",
    "eresp",
    "status",
    "type",
    "rate",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
    "hrsp_other",
    "req_rate",
    "req_tot",
    "chkfail",
    "reasons",
    "p50",
    "p99",
];

impl Snapshot {
    /// Sites (as frontends), the whole server (as `TOTAL`), and upstreams (as servers), one line each.
    pub fn to_csv(&self) -> String {
        let mut text = format!("# {},\n", COLUMNS.join(","));
        for site in &self.sites.rows {
            write_traffic(&mut text, &site.name, "FRONTEND", &site.traffic);
        }
        if let Some(rest) = &self.sites.rest {
            write_traffic(&mut text, "(rest)", "FRONTEND", rest);
        }
        write_traffic(&mut text, "TOTAL", "FRONTEND", &self.requests);
        for upstream in &self.upstreams.rows {
            write_upstream(&mut text, upstream);
        }
        text
    }
}

fn write_traffic(text: &mut String, name: &str, kind: &str, traffic: &Traffic) {
    let seconds = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let rate = format!("{:.1}", traffic.rate_10s);
    let responses = &traffic.responses;
    write_line(
        text,
        [
            name,
            kind,
            &traffic.in_flight.to_string(),
            &traffic.requests.to_string(),
            &traffic.bytes_received.to_string(),
            &traffic.bytes_sent.to_string(),
            &traffic.errors.to_string(),
            "OPEN",
            "0",
            &rate,
            &responses.informational.to_string(),
            &responses.successful.to_string(),
            &responses.redirects.to_string(),
            &responses.client_errors.to_string(),
            &responses.server_errors.to_string(),
            &responses.none.to_string(),
            &rate,
            &traffic.requests.to_string(),
            "",
            "",
            &seconds(traffic.p50_1m),
            &seconds(traffic.p99_1m),
        ],
    );
}

fn write_upstream(text: &mut String, upstream: &UpstreamRow) {
    let in_flight = upstream
        .in_flight
        .map_or_else(String::new, |n| n.to_string());
    // HAProxy calls one that an operator has taken out MAINT.
    let status = match (upstream.ejected, upstream.draining, upstream.healthy) {
        (Some(_), _, _) => "MAINT",
        (None, true, _) => "DRAIN",
        (None, false, true) => "UP",
        (None, false, false) => "DOWN",
    };
    let (failures, reasons) = (upstream.failures.to_string(), upstream.reasons.join("; "));
    let mut values = [""; COLUMNS.len()];
    let given = [
        ("pxname", "upstreams"),
        ("svname", &*upstream.address),
        ("scur", &*in_flight),
        ("status", status),
        ("type", "2"),
        ("chkfail", &*failures),
        ("reasons", &*reasons),
    ];
    for (column, value) in given {
        if let Some(at) = COLUMNS.iter().position(|name| *name == column) {
            values[at] = value;
        }
    }
    write_line(text, values);
}

/// Writes a line; a value with a separator or a quote is quoted (RFC 4180, section 2).
fn write_line(text: &mut String, values: [&str; COLUMNS.len()]) {
    for value in values {
        let value: String = value.chars().filter(|char| !char.is_control()).collect();
        // Writing to a string does not fail.
        let _ = match value.contains(['"', ',']) {
            true => write!(text, "\"{}\",", value.replace('"', "\"\"")),
            false => write!(text, "{value},"),
        };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{Site, Sites, Table};
    use super::*;

    #[test]
    fn each_line_has_all_columns_and_hostile_names_stay_in_theirs() {
        let snapshot = Snapshot {
            sites: Sites {
                total: 1,
                rows: vec![Site {
                    name: "a\"b, c\n".to_owned(),
                    traffic: Traffic {
                        requests: 7,
                        p50_1m: Some(0.25),
                        ..Traffic::default()
                    },
                }],
                rest: None,
            },
            upstreams: Table::of(
                vec![UpstreamRow {
                    address: "10.0.0.1:80".to_owned(),
                    reasons: vec!["circuit breaker: open".to_owned()],
                    failures: 3,
                    ..UpstreamRow::default()
                }],
                10,
            ),
            ..Snapshot::default()
        };
        let text = snapshot.to_csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("# pxname,svname,"));
        assert!(lines[1].starts_with("\"a\"\"b, c\",FRONTEND,0,7,0,0,0,OPEN,0,0.0,"));
        assert!(lines[1].ends_with(",7,,,0.25,,"), "{}", lines[1]);
        assert!(lines[2].starts_with("TOTAL,FRONTEND,"));
        let upstream = "upstreams,10.0.0.1:80,,,,,,DOWN,2,,,,,,,,,,3,circuit breaker: open,,,";
        assert_eq!(lines[3], upstream);
        for line in [lines[0], lines[2], lines[3]] {
            assert_eq!(line.matches(',').count(), COLUMNS.len(), "{line}");
        }
    }
}
