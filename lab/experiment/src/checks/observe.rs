//! What is observed of a server when the load is over and it still runs: responses to other paths, system calls, socket
//! options; and how many lines its logs gained.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::socket;
use super::trace::{self, Trace};
use crate::file::{CheckPart, MetricPart};
use sluice_load::generator::kind;
use sluice_load::generator::probe::probe;
use sluice_load::generator::request::Draft;
use sluice_load::generator::target::{Address, HttpVersion, Reach, Target};
use sluice_load::generator::{Plan, expect::Expect};
use sluice_load::sample;

/// What was observed. Only what a check asks for is looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Lines that logs gained, by path as the check has it.
    pub log_lines: BTreeMap<String, u64>,
    /// Statuses of other paths, or why there is none.
    pub statuses: BTreeMap<String, Result<u16, String>>,
    /// System calls for a few requests.
    pub calls: Option<Result<Trace, String>>,
    /// Threads, by the name that was looked for.
    pub threads: BTreeMap<String, u64>,
    /// Figures that servers report, by [`MetricPart::key`], or why there is none.
    pub metrics: BTreeMap<String, Result<f64, String>>,
    /// Whether `TCP_NODELAY` is set on the server's side of a connection.
    pub nodelay: Option<Result<bool, String>>,
}

/// Observes a server with these processes, as far as the checks ask for it. `own` are addresses of this machine.
pub fn observe(parts: &[CheckPart], plan: &Plan, roots: &[u32], own: &[IpAddr]) -> Observed {
    let statuses = parts.iter().filter_map(|part| part.request.as_ref());
    let statuses = statuses.map(|request| (request.path.clone(), status(plan, &request.path)));
    let calls: Vec<&str> = parts
        .iter()
        .filter_map(|part| part.calls.as_ref())
        .flat_map(|part| part.name.split('|'))
        .collect();
    Observed {
        log_lines: BTreeMap::new(),
        threads: {
            let threads = parts.iter().filter_map(|part| part.threads.as_ref());
            threads
                .map(|part| (part.name.clone(), threads_named(&part.name, roots)))
                .collect()
        },
        metrics: metrics(parts.iter().filter_map(|part| part.metric.as_ref()), own),
        statuses: statuses.collect(),
        nodelay: parts
            .iter()
            .any(|part| part.nodelay.is_some())
            .then(|| socket::nodelay(plan, roots)),
        calls: (!calls.is_empty()).then(|| trace::trace(&calls, plan, roots)),
    }
}

/// The status of another path.
fn status(plan: &Plan, path: &str) -> Result<u16, String> {
    let draft = Draft {
        path: path.to_string(),
        ..plan.requests[0].draft()
    };
    let plan = Plan {
        requests: vec![draft.prepare(&plan.target, Expect::default())?],
        ..plan.clone()
    };
    let response = kind::ask(&plan).map_err(|fault| {
        let words = fault.class.words();
        format!("{words} ({})", fault.text)
    })?;
    Ok(response.status)
}

/// The threads of all processes that have this name.
fn threads_named(name: &str, roots: &[u32]) -> u64 {
    let is_one = |found: &str| match name.strip_suffix('*') {
        Some(begin) => found.starts_with(begin),
        None => found == name,
    };
    let threads = sample::processes(roots).into_iter().flat_map(|pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/task"));
        entries.into_iter().flatten().flatten()
    });
    let named = threads.filter(|entry| {
        let comm = fs::read_to_string(entry.path().join("comm"));
        comm.is_ok_and(|comm| is_one(comm.trim_end()))
    });
    named.count() as u64
}

/// Figures that servers of this machine report. `own` are addresses of it.
pub fn metrics<'a>(
    parts: impl Iterator<Item = &'a MetricPart>,
    own: &[IpAddr],
) -> BTreeMap<String, Result<f64, String>> {
    parts.map(|part| (part.key(), metric(part, own))).collect()
}

/// Whether an address is one of this machine: a loopback address, or one of these.
pub fn is_own(address: &Address, own: &[IpAddr]) -> bool {
    let Address::Tcp(address) = address else {
        return false;
    };
    let ip = address.ip();
    ip.is_loopback() || ip.is_unspecified() || own.contains(&ip)
}

/// A figure that a server reports.
fn metric(part: &MetricPart, own: &[IpAddr]) -> Result<f64, String> {
    let target = Target::parse(&part.url, HttpVersion::Http1, None, Reach::Anywhere);
    let target = target.map_err(|error| error.text)?;
    if !is_own(&target.address, own) {
        return Err(format!("{} is not on the machine of the server", part.url));
    }
    if target.protocol.is_tls() {
        return Err(format!("{}: metrics are read without TLS", part.url));
    }
    let draft = Draft {
        path: target.path.clone(),
        close: true,
        ..Draft::default()
    };
    let request = draft.prepare(&target, Expect::default())?;
    let response = probe(&target, None, &request).map_err(|fault| {
        let words = fault.class.words();
        format!("{}: {words} ({})", part.url, fault.text)
    })?;
    let text = String::from_utf8_lossy(&response.body);
    metric_in(&text, &part.name).ok_or_else(|| {
        let (url, status, name) = (&part.url, response.status, &part.name);
        format!("{url} responds with status {status} and has no `{name}`")
    })
}

/// The sum of all values of a metric in the text format of Prometheus: a line `NAME{LABELS} VALUE` for each.
fn metric_in(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, value| sum + value)
}

/// Logs, each as its check names it and with its path, and how many bytes they had before the load.
#[derive(Debug)]
pub struct Logs(Vec<(String, PathBuf, u64)>);

impl Logs {
    /// The logs that checks ask for, before the load. `path` replaces the placeholders of a name.
    pub fn begin(
        parts: &[CheckPart],
        path: impl Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let files = parts.iter().filter_map(|part| part.log_lines.as_ref());
        let files = files.map(|part| {
            let path = path(&part.file)?;
            let bytes = fs::metadata(&path).map_or(0, |data| data.len());
            Ok((part.file.clone(), path, bytes))
        });
        Ok(Logs(files.collect::<Result<_, String>>()?))
    }

    /// The lines that they gained. Logs in the folder of the run are then removed: a fast server writes gigabytes.
    pub fn end(self, folder: &Path) -> BTreeMap<String, u64> {
        let files = self.0.into_iter();
        files
            .map(|(file, path, begin)| {
                let lines = lines_after(&path, begin).unwrap_or_default();
                if path.starts_with(folder) {
                    let _ = fs::remove_file(&path);
                }
                (file, lines)
            })
            .collect()
    }
}

/// The lines of a file after its first bytes; it may be large, so it is read in pieces.
fn lines_after(path: &Path, begin: u64) -> std::io::Result<u64> {
    let mut file = fs::File::open(path)?;
    file.seek(SeekFrom::Start(begin))?;
    let (mut buf, mut lines) = (vec![0; 64 * 1024], 0);
    loop {
        let got = file.read(&mut buf)?;
        if got == 0 {
            return Ok(lines);
        }
        lines += buf[..got].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_metric_are_added_and_others_left_out() {
        let text = "# HELP a_total Help.\n# TYPE a_total counter\na_total 3\na_total_more 50\n\
                    b{x=\"1\",y=\"{}\"} 2\nb{x=\"2\"} 4.5 1700000000\nc nothing\n";
        assert_eq!(metric_in(text, "a_total"), Some(3.0));
        assert_eq!(metric_in(text, "b"), Some(6.5));
        assert_eq!(metric_in(text, "c"), None);
        assert_eq!(metric_in(text, "d"), None);
    }

    #[test]
    fn threads_are_counted_by_their_names() {
        let (stop, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Arc::new(std::sync::Mutex::new(held));
        let (began, begun) = std::sync::mpsc::channel();
        let threads = (0..3).map(|number| {
            let (held, began) = (held.clone(), began.clone());
            let named = std::thread::Builder::new().name(format!("counted-{number}"));
            let work = move || {
                began.send(()).unwrap();
                let _ = held.lock().unwrap().recv();
            };
            named.spawn(work).unwrap()
        });
        let threads: Vec<_> = threads.collect();
        (0..3).for_each(|_| begun.recv().unwrap());
        let own = [std::process::id()];
        assert_eq!(threads_named("counted-*", &own), 3);
        assert_eq!(threads_named("counted-1", &own), 1);
        assert_eq!(threads_named("counted", &own), 0);
        drop(stop);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
}
