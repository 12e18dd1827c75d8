//! `sluice fleet`: the nodes of a fleet.

use std::time::{SystemTime, UNIX_EPOCH};

use sluice_serve::fleet::{CertificateSummary, Fleet, NodeState, NodeView};

use super::status::text::{clean, latency, period, share};
use crate::messages::{Failed, print_bytes};
use crate::{Exit, remote};

/// Flags of the command.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show the nodes with their versions, revisions, certificates and locks.
    Status {
        /// URL of the fleet's configuration, such as etcd://HOST/KEY.
        url: String,
        /// Print the reports of all nodes as JSON.
        #[arg(long)]
        json: bool,
    },
}

impl Args {
    /// Prints the state of the fleet.
    pub fn run(self) -> Result<Exit, Failed> {
        let Action::Status { url, json } = self.action;
        let (location, store, layout) = remote::store(&url)?;
        let fleet = Fleet::read(&*store, &layout).map_err(Failed::new)?;
        let text = match json {
            true => serde_json::to_string(&fleet).map_err(Failed::new)? + "\n",
            false => page(&fleet, &location.to_string(), now()),
        };
        print_bytes(text.as_bytes())
    }
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn page(fleet: &Fleet, place: &str, now: f64) -> String {
    let mut out = format!("{place}\n");
    out.push_str(&match (&fleet.revision, fleet.changed) {
        (Some(revision), Some(changed)) => {
            format!(
                "revision {revision}, changed {} ago\n",
                period(now - changed)
            )
        }
        (Some(_) | None, _) => "no configuration\n".to_owned(),
    });
    match &fleet.canary {
        Some(canary) if fleet.is_pushing => {
            let nodes = canary.nodes.join(", ");
            out.push_str(&format!("canary {} on {nodes}\n", canary.revision));
        }
        Some(canary) => out.push_str(&format!(
            "canary {} on {}: its push was interrupted; the next one ends it\n",
            canary.revision,
            canary.nodes.join(", ")
        )),
        None if fleet.is_pushing => out.push_str("a push is in progress\n"),
        None => {}
    }
    if fleet.nodes.is_empty() {
        return out + "no nodes\n";
    }
    out.push('\n');
    let heads = [
        "NODE",
        "STATE",
        "REVISION",
        "VERSION",
        "REPORTED",
        "LAG",
        "ERRORS",
        "STORE",
        "CERTIFICATES",
        "LOCKS",
    ];
    let heads = heads.map(str::to_owned).to_vec();
    let rows = fleet.nodes.iter().map(|node| cells(node, now));
    out.push_str(&table(std::iter::once(heads).chain(rows).collect()));
    for node in fleet
        .nodes
        .iter()
        .filter(|node| node.state == NodeState::Refuses)
    {
        let refused = node
            .report
            .as_ref()
            .and_then(|report| report.refused.as_ref());
        if let Some(refused) = refused {
            out.push_str(&format!("\n{} refused {}:\n", node.node, refused.revision));
            let lines = refused.error.lines();
            lines.for_each(|line| out.push_str(&format!("  {}\n", clean(line))));
        }
    }
    out
}

fn cells(node: &NodeView, now: f64) -> Vec<String> {
    let none = || "-".to_owned();
    let report = node.report.as_ref();
    let running = report.and_then(|report| report.running.as_ref());
    vec![
        clean(&node.node),
        node.state.as_str().to_owned(),
        running.map_or_else(none, |running| clean(running.revision.as_str())),
        report.map_or_else(none, |report| clean(&report.version)),
        report.map_or_else(none, |report| format!("{} ago", period(now - report.at))),
        node.lag.map_or_else(none, period),
        report.map_or_else(none, |report| share(report.recent.error_share())),
        report.map_or_else(none, |report| latency(report.store_seconds)),
        report.map_or_else(none, |report| certificates(&report.certificates, now)),
        report
            .filter(|report| !report.locks.is_empty())
            .map_or_else(none, |report| clean(&report.locks.join(", "))),
    ]
}

/// How many certificates a node has, how many fail, and when the first expires.
fn certificates(all: &CertificateSummary, now: f64) -> String {
    let mut text = all.total.to_string();
    if all.failing > 0 {
        text.push_str(&format!(", {} failing", all.failing));
    }
    if let Some(expires) = all.expires {
        let name = clean(&all.expires_name);
        match expires > now {
            true => text.push_str(&format!(", {name} in {}", period(expires - now))),
            false => text.push_str(&format!(", {name} expired")),
        }
    }
    text
}

/// Lines with columns of equal width.
pub fn table(rows: Vec<Vec<String>>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", line.join("  ").trim_end())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_serve::fleet::{NodeReport, Ran, Refusal, Revision};

    #[test]
    fn the_page_shows_each_node_and_why_it_refuses() {
        let (old, new) = (Revision::of("old"), Revision::of("new"));
        let report = NodeReport {
            node: "b".into(),
            version: "0.1.0".into(),
            at: 95.0,
            running: Some(Ran {
                revision: old.clone(),
                at: 10.0,
            }),
            refused: Some(Refusal {
                revision: new.clone(),
                at: 90.0,
                error: "prod:1:1: error".into(),
            }),
            certificates: CertificateSummary {
                total: 12,
                failing: 1,
                expires: Some(100.0 + 5.0 * 86_400.0),
                expires_name: "a.test".into(),
            },
            locks: vec!["issue_cert_b.test".into()],
            store_seconds: Some(0.004),
            ..NodeReport::default()
        };
        let node = |name: &str, state, report| NodeView {
            node: name.into(),
            state,
            lag: None,
            report,
        };
        let fleet = Fleet {
            revision: Some(new.clone()),
            changed: Some(40.0),
            canary: None,
            is_pushing: false,
            nodes: vec![
                node("a", NodeState::Gone, None),
                NodeView {
                    lag: Some(60.0),
                    ..node("b", NodeState::Refuses, Some(report))
                },
            ],
        };
        let shown = page(&fleet, "etcd://h/k", 100.0);
        let expected = format!(
            "etcd://h/k\nrevision {new}, changed 1m ago\n\n\
             NODE  STATE    REVISION      VERSION  REPORTED  LAG  ERRORS  STORE  CERTIFICATES                 LOCKS\n\
             a     gone     -             -        -         -    -       -      -                            -\n\
             b     refuses  {old}  0.1.0    5s ago    1m   -       4.0ms  12, 1 failing, a.test in 5d  issue_cert_b.test\n\n\
             b refused {new}:\n  prod:1:1: error\n"
        );
        assert_eq!(shown, expected);
    }
}
