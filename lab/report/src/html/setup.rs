//! Machine, servers, configurations and the command that reproduces the result.

use std::fmt::Write;

use super::super::limits_found as limits;
use super::super::line_diff::line_diff;
use super::super::text::{escape, machine_words, size};
use sluice_audit::finding::count;
use sluice_load::result::{ConfigText, RunResult, SubjectFacts};

/// What the figures mean.
const METHOD: &str = "<p>What the figures mean:</p><ul>\
<li>Rates and costs are medians over blocks. Failures are summed over all blocks, and over attempts that were repeated because the machine was disturbed. Percentiles and the maximum are those of the merged histograms of all blocks.</li>\
<li>Latency in a closed loop is from the first byte sent, or from the start of a connect if one was needed; in an open loop from when the request was due. There it is the sum of the wait in the generator and of the time from sent to the response. A timeout counts from when the request was sent; what was never sent in time is a failure of its own.</li>\
<li>A response with more bytes behind it is a failure. Requests that a server returned unprocessed with a graceful GOAWAY are sent again and are none.</li>\
<li>CPU time is read from a clock of 10 ms: digits that it does not resolve are not shown, and usage over time moves in its steps.</li>\
<li>On a logarithmic axis values are diamonds, since the length of a bar would mean nothing. Heat maps of one test at one level share their scale.</li></ul>\n";

/// Everything that another person needs to reproduce the result.
pub fn write(result: &RunResult) -> String {
    let machine = &result.machine;
    let mut facts: Vec<(String, String)> = vec![
        (
            "Processor".into(),
            format!("{} x {}", machine.cpus, machine.cpu_model),
        ),
        ("Memory".into(), size(machine.memory_bytes as f64)),
        (
            "System".into(),
            format!("{}, kernel {}", machine.os, machine.kernel),
        ),
        (
            "Open files".into(),
            format!("{} at most", count(machine.open_files_max as f64)),
        ),
    ];
    facts.extend(
        machine
            .hypervisor
            .iter()
            .map(|name| ("Hypervisor".to_string(), name.clone())),
    );
    let placement = machine.placement.iter().map(|(who, cpus)| {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        format!("{who} on {}", cpus.join(", "))
    });
    let placement: Vec<String> = placement.collect();
    if !placement.is_empty() {
        facts.push(("Placement".into(), placement.join("; ")));
    }
    let upstreams = result.upstream_machine.as_ref().map(machine_words);
    facts.extend(upstreams.map(|words| ("Machine of the upstreams".into(), words)));
    facts.extend(
        machine
            .settings
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    facts.extend(load_facts(result));
    facts.extend(limits::lines(result));
    facts.push(("Start value".into(), result.seed.to_string()));
    facts.push(("Took".into(), format!("{:.0} s", result.duration_s)));
    let rows: String = facts
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
        .collect();
    let mut out = format!("<dl>{rows}</dl>\n{METHOD}");
    if !result.command.is_empty() {
        let _ = writeln!(
            out,
            "<p>Again:</p><pre>{}</pre>",
            escape(&result.command.join(" "))
        );
    }
    result
        .subjects
        .iter()
        .for_each(|subject| out.push_str(&one(subject)));
    if let Some(experiment) = &result.experiment {
        let _ = writeln!(
            out,
            "<details><summary>Experiment {} (SHA-256 {})</summary><pre>{}</pre></details>",
            escape(&experiment.file),
            escape(&experiment.sha256),
            escape(&experiment.text)
        );
    }
    out
}

/// How the load was generated, and what the load generator cannot measure.
fn load_facts(result: &RunResult) -> Vec<(String, String)> {
    let Some(block) = result.cells.iter().flat_map(|cell| &cell.blocks).next() else {
        return Vec::new();
    };
    let asked = &block.load.asked;
    let engine = &block.load.engine;
    let name = match engine.name.as_str() {
        "native" => "the lab's own".to_string(),
        name => format!("{name} {}", engine.version.as_deref().unwrap_or_default()),
    };
    let mut facts = vec![
        (
            "Generator".to_string(),
            format!("{name}, {} threads, {}", asked.threads, asked.protocol),
        ),
        (
            "Window".to_string(),
            format!(
                "{} s {}, timeout {} s",
                asked.duration_s,
                block.load.warmup_words(),
                asked.timeout_s
            ),
        ),
        ("Response verification".to_string(), asked.verify.clone()),
    ];
    if !engine.not_measured.is_empty() {
        facts.push((
            format!("Not measured by {}", engine.name),
            engine.not_measured.join(", "),
        ));
    }
    facts
}

/// The configuration among these that differs in the fewest lines, and those lines. The replacements of a run differ by nothing
/// but ports and folders, and are the same in all.
fn nearest<'a>(
    earlier: &'a [ConfigText],
    config: &ConfigText,
) -> Option<(&'a ConfigText, Vec<String>)> {
    let with_diff = |other: &'a ConfigText| Some((other, line_diff(&other.text, &config.text)?));
    let all = earlier.iter().filter_map(with_diff);
    let nearest = all.min_by_key(|(_, lines)| lines.len())?;
    // Texts without a line in common have nothing to compare.
    (nearest.1.len() < config.text.lines().count()).then_some(nearest)
}

fn one(subject: &SubjectFacts) -> String {
    let mut out = format!("<details><summary>{}</summary>", escape(&subject.name));
    let mut paragraph = |label: &str, text: &str| {
        if !text.is_empty() {
            let _ = write!(out, "<p>{label}</p><pre>{}</pre>", escape(text.trim_end()));
        }
    };
    paragraph(
        "Not measured",
        subject.missing.as_deref().unwrap_or_default(),
    );
    paragraph("Started by", &subject.command);
    paragraph(
        "Says of itself",
        subject.version.as_deref().unwrap_or_default(),
    );
    paragraph(
        "SHA-256 of the program",
        subject.sha256.as_deref().unwrap_or_default(),
    );
    for (at, config) in subject.configs.iter().enumerate() {
        paragraph(
            &format!("Configuration for {}", escape(&config.used_for)),
            &config.text,
        );
        let changes: Vec<String> = config
            .rewritten
            .iter()
            .map(|(before, after)| format!("- {before}\n+ {after}"))
            .collect();
        paragraph("Changed to run beside other servers", &changes.join("\n"));
        if let Some((other, lines)) = nearest(&subject.configs[..at], config) {
            let label = format!("Different from the one for {}", escape(&other.used_for));
            paragraph(&label, &lines.join("\n"));
        }
    }
    out.push_str("</details>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_a_server_are_compared_with_the_nearest() {
        let config = |used_for: &str, text: &str| ConfigText {
            used_for: used_for.into(),
            text: text.into(),
            ..ConfigText::default()
        };
        let subject = SubjectFacts {
            name: "swift".into(),
            configs: vec![
                config("default", "a;\nb;\nc;\n"),
                config("other", "x;\ny;\n"),
                config("tuned", "a;\nb off;\nc;\n"),
            ],
            ..SubjectFacts::default()
        };
        let text = one(&subject);
        assert!(
            text.contains("<p>Different from the one for default</p><pre>- b;\n+ b off;</pre>")
        );
        // The first has nothing to be compared with, and the second nothing in common.
        assert_eq!(text.matches("Different from").count(), 1, "{text}");
    }
}
