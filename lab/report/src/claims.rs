//! The verdicts on an experiment's claims, beside the verdicts of a study's own printed figures.

use super::text::escape;
use sluice_audit::evidence::{Claim, Sheet};
use sluice_audit::finding::{Finding, Weight};
use sluice_audit::rules::claims::check_one;
use sluice_audit::{ours, studies};
use sluice_load::result::RunResult;

/// A claim and its verdicts.
pub struct JudgedClaim {
    /// The claim, with its formula if there is one.
    pub claim: String,
    /// The verdict of the study's own figures; empty without a study.
    pub printed: String,
    /// The verdict of this run's figures.
    pub here: String,
    /// Severity of that verdict.
    pub weight: Weight,
    /// What was compared, and what to keep in mind.
    pub lines: Vec<String>,
}

/// All claims of a result. `shape` is the number of the study it reproduces.
pub fn judged(result: &RunResult, shape: Option<&str>) -> Vec<JudgedClaim> {
    let sheet = ours::sheet(result);
    let study = shape.and_then(studies::study).and_then(Result::ok);
    let printed = study.map(|study| study.sheet);
    let claims = sheet.conditions.claims.iter();
    claims
        .map(|claim| one(&sheet, claim, printed.as_ref()))
        .collect()
}

fn one(sheet: &Sheet, claim: &Claim, printed: Option<&Sheet>) -> JudgedClaim {
    let finding = check_one(sheet, claim);
    let (here, _) = split(&finding);
    let mut lines = finding.arithmetic.clone();
    if !finding.meaning.is_empty() {
        lines.push(finding.meaning.clone());
    }
    let printed = printed.and_then(|sheet| {
        let claims = &mut sheet.conditions.claims.iter();
        let same = claims.find(|one| one.name == claim.name)?;
        let finding = check_one(sheet, same);
        let (word, _) = split(&finding);
        // The formula comes first, then the figures.
        let figures: Vec<&str> = finding
            .arithmetic
            .iter()
            .skip(1)
            .map(String::as_str)
            .collect();
        Some(match figures.is_empty() {
            true => word,
            false => format!("{word}: {}", figures.join("; ")),
        })
    });
    JudgedClaim {
        claim: claim.says.clone(),
        printed: printed.unwrap_or_default(),
        here,
        weight: finding.weight,
        lines,
    }
}

fn split(finding: &Finding) -> (String, String) {
    let parts = finding.title.split_once(": ");
    let (word, rest) = parts.unwrap_or(("", &finding.title));
    (word.to_string(), rest.to_string())
}

/// As a Markdown table; empty without claims.
pub fn markdown(result: &RunResult, shape: Option<&str>) -> String {
    let judged = judged(result, shape);
    if judged.is_empty() {
        return String::new();
    }
    let cell = |text: &str| text.replace('|', "\\|");
    let with_printed = judged.iter().any(|one| !one.printed.is_empty());
    let head = match with_printed {
        true => {
            "| claim | printed figures | here | what was compared |\n| --- | --- | --- | --- |\n"
        }
        false => "| claim | here | what was compared |\n| --- | --- | --- |\n",
    };
    let row = |one: &JudgedClaim| {
        let mut cells = vec![cell(&one.claim)];
        cells.extend(with_printed.then(|| cell(&one.printed)));
        cells.push(format!("**{}**", one.here));
        cells.push(cell(&one.lines.join("; ")));
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = judged.iter().map(row).collect();
    format!("\n## Claims\n\n{head}{rows}")
}

/// As an HTML table; empty without claims.
pub fn html(result: &RunResult, shape: Option<&str>) -> String {
    let judged = judged(result, shape);
    if judged.is_empty() {
        return String::new();
    }
    let with_printed = judged.iter().any(|one| !one.printed.is_empty());
    let row = |one: &JudgedClaim| {
        let class = match one.weight {
            Weight::Sound => "good",
            Weight::Contradiction => "bad",
            _ if one.here == "contradicted" => "bad",
            _ => "soft",
        };
        let lines: Vec<String> = one.lines.iter().map(|line| escape(line)).collect();
        let printed = with_printed.then(|| format!("<td>{}</td>", escape(&one.printed)));
        format!(
            "<tr><td>{}</td>{}<td class=\"{class}\">{}</td><td>{}</td></tr>\n",
            escape(&one.claim),
            printed.unwrap_or_default(),
            escape(&one.here),
            lines.join("<br>")
        )
    };
    let rows: String = judged.iter().map(row).collect();
    let printed = if with_printed {
        "<th>printed figures</th>"
    } else {
        ""
    };
    format!(
        "<div class=\"wide\"><table class=\"text\"><thead><tr><th>claim</th>{printed}<th>here</th><th>what was compared</th></tr></thead><tbody>{rows}</tbody></table></div>\n"
    )
}
