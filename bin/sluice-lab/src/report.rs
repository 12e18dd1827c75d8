//! The commands `report`, `compare`, `gate` and `explain`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use sluice_audit::finding::{Finding, Weight, number, percent};
use sluice_audit::studies;
use sluice_audit::{audit, ours};
use sluice_load::outcome::{Completion, Outcome, Refused};
use sluice_load::result::{Cell, RunResult};
use sluice_report::compare::{compare, floor};
use sluice_report::gate::{self, Checked, Judgement, Threshold};
use sluice_report::load::{file_of, load};
use sluice_report::panels::{self, Detail, Panel};
use sluice_report::view::View;
use sluice_report::{csv, explain, html, markdown};

/// Options of `lab report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// A result, or the folder with its `result.json`
    result: PathBuf,
    /// Write one self-contained HTML file
    #[arg(long)]
    html: bool,
    /// Write tables and findings in Markdown
    #[arg(long)]
    md: bool,
    /// Write CSV with one line per block
    #[arg(long)]
    csv: bool,
    /// Write each chart as an SVG file
    #[arg(long)]
    svg: bool,
    /// Draw everything in full resolution, however large the page becomes
    #[arg(long)]
    full: bool,
    /// Use the table layout of a study (000 to 004)
    #[arg(long, value_name = "STUDY")]
    shape: Option<String>,
    /// Output folder (default: that of the result)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the requested reports; HTML, Markdown and CSV by default.
pub fn report(options: &ReportOptions) -> Outcome {
    if let Some(shape) = &options.shape
        && !studies::IDS.contains(&shape.as_str())
    {
        return Err(Refused(format!(
            "unknown study `{shape}` (studies: {})",
            studies::IDS.join(", ")
        )));
    }
    let result = load(&options.result).map_err(Refused)?;
    let shape = options.shape.as_deref();
    let file = file_of(&options.result);
    let beside = file.parent().unwrap_or(Path::new("."));
    let folder = options.out.as_deref().unwrap_or(beside);
    std::fs::create_dir_all(folder)
        .map_err(|error| Refused(format!("{}: {error}", folder.display())))?;
    contradictions(&result);
    let none = !(options.html || options.md || options.csv || options.svg);
    let mut files: Vec<(String, String)> = Vec::new();
    if options.html || none {
        files.push((
            "report.html".into(),
            html::page(&result, shape, options.full),
        ));
    }
    if options.md || none {
        files.push(("report.md".into(), markdown::write(&result, shape)));
    }
    if options.csv || none {
        files.push(("table.csv".into(), csv::write(&result)));
    }
    if options.svg {
        files.extend(charts(&result));
    }
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .map_err(|error| Refused(format!("{}: {error}", path.display())))?;
        println!("{}", path.display());
    }
    Ok(Completion::Yes)
}

/// Prints contradictions between the figures of a result before any report is written. Claims that do not hold are not
/// contradictions.
fn contradictions(result: &RunResult) {
    let findings = audit(&ours::sheet(result));
    let heavy =
        |finding: &&Finding| finding.weight == Weight::Contradiction && finding.rule != "A11";
    for finding in findings.iter().filter(heavy) {
        eprintln!(
            "figures that cannot both be true ({}): {}",
            finding.rule, finding.title
        );
    }
}

/// All charts of a result with their file names.
fn charts(result: &RunResult) -> Vec<(String, String)> {
    let view = View::new(result);
    let groups: [Vec<Panel>; 7] = [
        panels::overview(&view),
        panels::latency_bars(&view),
        panels::percentiles(&view, Detail::FULL),
        panels::curves(&view),
        panels::over_time(&view, Detail::FULL),
        panels::rates_over_time(&view, Detail::FULL),
        panels::heat_maps(&view, Detail::FULL),
    ];
    let layout = result.layout.as_deref().unwrap_or_default();
    let drawings = groups.into_iter().flatten().map(|panel| panel.drawing);
    drawings
        .enumerate()
        .map(|(at, drawing)| {
            (
                format!("{:03}-{}.svg", at + 1, file_name(drawing.title())),
                drawing.file(layout),
            )
        })
        .collect()
}

fn file_name(title: &str) -> String {
    let plain: String = title
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let words: Vec<&str> = plain.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Options of `lab compare`.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The result to compare with
    base: PathBuf,
    /// The other result; not needed with `--subjects`
    other: Option<PathBuf>,
    /// Compare two subjects, base first
    #[arg(long, value_name = "BASE,OTHER", value_parser = two_names)]
    subjects: Option<(String, String)>,
    /// Print Markdown
    #[arg(long)]
    md: bool,
}

fn two_names(text: &str) -> Result<(String, String), String> {
    let (one, two) = text
        .split_once(',')
        .ok_or("write two names separated by a comma")?;
    Ok((one.trim().to_string(), two.trim().to_string()))
}

/// Prints paired ratios and verdicts.
pub fn compare_results(options: &CompareOptions) -> Outcome {
    let base = load(&options.base).map_err(Refused)?;
    let other = match (&options.other, &options.subjects) {
        (Some(other), _) => load(other).map_err(Refused)?,
        (None, Some(_)) => base.clone(),
        (None, None) => {
            return Err(Refused::new(
                "two results are needed, or --subjects with two of one",
            ));
        }
    };
    let subjects = options
        .subjects
        .as_ref()
        .map(|(one, two)| (one.as_str(), two.as_str()));
    let comparison = compare(&base, &other, subjects);
    print!(
        "{}",
        if options.md {
            comparison.markdown()
        } else {
            comparison.text()
        }
    );
    Ok(Completion::Yes)
}

/// Options of `lab gate`.
#[derive(Debug, Args)]
pub struct GateOptions {
    /// The accepted result
    base: PathBuf,
    /// The new result; not needed with `--subjects`
    new: Option<PathBuf>,
    /// How much worse a metric may become: `rps:-3%`, `p99:+5%`, `median`, `cpu`, `rss`
    #[arg(long = "max", value_name = "QUANTITY:CHANGE", required = true)]
    thresholds: Vec<Threshold>,
    /// Compare two subjects of one result, the accepted one first. This is the most precise way: both are measured in
    /// the same run, in turn
    #[arg(long, value_name = "BASE,NEW", value_parser = two_names)]
    subjects: Option<(String, String)>,
    /// Compare even if machine, experiment or engine differ
    #[arg(long)]
    force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = GateShape::Text)]
    format: GateShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GateShape {
    /// For a terminal
    Text,
    /// For a comment on a pull request
    Markdown,
    /// For systems that collect test results
    Junit,
    /// Annotations for GitHub workflows
    Github,
}

/// Exit code 0 if no metric is shown to be worse than allowed, 1 if one is, 2 if no conclusion is possible.
pub fn gate(options: &GateOptions) -> Outcome {
    let base = load(&options.base).map_err(Refused)?;
    let new = match (&options.new, &options.subjects) {
        (Some(new), _) => load(new).map_err(Refused)?,
        (None, Some(_)) => base.clone(),
        (None, None) => {
            return Err(Refused::new(
                "two results are needed, or --subjects with two of one",
            ));
        }
    };
    let reasons = compare(&base, &new, None).reasons;
    if options.new.is_some() && !reasons.is_empty() && !options.force {
        return Err(Refused(format!(
            "not the same experiment ({}); --force compares them anyway",
            reasons.join("; ")
        )));
    }
    let partner = |cell: &Cell| {
        let mut wanted = cell.axes.clone();
        if let Some((accepted, new)) = &options.subjects {
            if cell.axis("subject") != accepted {
                return None;
            }
            wanted.insert("subject".into(), new.clone());
        }
        new.cells.iter().find(|cell| cell.axes == wanted)
    };
    let checked = gate::check(&base, &options.thresholds, floor(&base), partner);
    let verdict = gate::verdict(&checked);
    print!("{}", gate_text(&checked, options.format));
    match verdict {
        Judgement::Pass => Ok(Completion::Yes),
        Judgement::Regression => Ok(Completion::No),
        Judgement::Unusable(reason) => Err(Refused(format!("the gate cannot judge: {reason}"))),
    }
}

fn line(checked: &Checked) -> (String, String, &'static str) {
    let Threshold { quantity, share } = checked.threshold;
    let change = checked.ratio.map_or("–".into(), |ratio| match ratio {
        ratio if ratio < 1.0 => format!("{} lower", percent(1.0 - ratio)),
        ratio => format!("{} higher", percent(ratio - 1.0)),
    });
    let (word, reason) = match &checked.judgement {
        Judgement::Pass => ("pass", String::new()),
        Judgement::Regression => ("REGRESSION", String::new()),
        Judgement::Unusable(reason) => ("unusable", format!(": {reason}")),
    };
    let detail = format!(
        "{} {change} (allowed {}, chance {}){reason}",
        quantity.name(),
        percent(share),
        number(checked.chance)
    );
    (checked.place.clone(), detail, word)
}

fn gate_text(checked: &[Checked], shape: GateShape) -> String {
    let lines = checked.iter().map(line);
    match shape {
        GateShape::Text => lines
            .map(|(place, detail, word)| format!("{word:<11}{place}: {detail}\n"))
            .collect(),
        GateShape::Markdown => {
            let rows: String = lines
                .map(|(place, detail, word)| format!("| {word} | {place} | {detail} |\n"))
                .collect();
            format!("| | cell | change |\n| --- | --- | --- |\n{rows}")
        }
        GateShape::Github => lines
            .filter(|(_, _, word)| *word != "pass")
            .map(|(place, detail, word)| {
                format!(
                    "::{} title=lab gate::{place}: {detail}\n",
                    if word == "REGRESSION" {
                        "error"
                    } else {
                        "warning"
                    }
                )
            })
            .collect(),
        GateShape::Junit => junit(checked),
    }
}

fn junit(checked: &[Checked]) -> String {
    let failures = checked
        .iter()
        .filter(|one| one.judgement == Judgement::Regression)
        .count();
    let mut out = format!(
        "<testsuite name=\"lab gate\" tests=\"{}\" failures=\"{failures}\">\n",
        checked.len()
    );
    for (one, (place, detail, word)) in checked.iter().zip(checked.iter().map(line)) {
        let inside = match one.judgement {
            Judgement::Pass => String::new(),
            Judgement::Regression => format!(
                "<failure message=\"{word}\">{}</failure>",
                sluice_report::text::escape(&detail)
            ),
            Judgement::Unusable(_) => {
                format!(
                    "<skipped message=\"{}\"/>",
                    sluice_report::text::escape(&detail)
                )
            }
        };
        out.push_str(&format!(
            "<testcase classname=\"{}\" name=\"{}\">{inside}</testcase>\n",
            sluice_report::text::escape(&place),
            one.threshold.quantity.name()
        ));
    }
    out + "</testsuite>\n"
}

/// Options of `lab explain`.
#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// A result, or the folder with its `result.json`
    result: PathBuf,
    /// The cell: its ID or a prefix of it, or axes such as `subject=nginx,clients=200`
    cell: String,
}

/// Prints the bottleneck of a cell.
pub fn explain_cell(options: &ExplainOptions) -> Outcome {
    let result = load(&options.result).map_err(Refused)?;
    let cell = explain::find(&result, &options.cell).map_err(Refused)?;
    print!("{}", explain::explain(&result, cell));
    Ok(Completion::Yes)
}
