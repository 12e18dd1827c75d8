//! The five published studies as data: figures as printed, in the output of their own tools, with further facts in
//! `published/<id>/study.toml`. Nothing is judged here; the rules do that, as for any other report.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::evidence::{Ceiling, Claim, Conditions, Remark, Row, Sheet, Treatment};
use super::read::{self, Format, Hints};

/// The numbers of the studies, as used by commands.
pub const IDS: [&str; 5] = ["000", "001", "002", "003", "004"];

/// A study with its figures.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its number.
    pub id: String,
    /// The question it asked.
    pub question: String,
    /// Its figures and what is known about them.
    pub sheet: Sheet,
}

/// Loads a study. `None` if there is none with that number.
pub fn study(id: &str) -> Option<Result<Study, String>> {
    IDS.contains(&id).then(|| build(id))
}

fn text(id: &str, file: &str) -> Option<&'static str> {
    Some(match (id, file) {
        ("000", "study.toml") => include_str!("../../published/000/study.toml"),
        ("000", "tables.txt") => include_str!("../../published/000/tables.txt"),
        ("001", "study.toml") => include_str!("../../published/001/study.toml"),
        ("001", "wrk.txt") => include_str!("../../published/001/wrk.txt"),
        ("002", "study.toml") => include_str!("../../published/002/study.toml"),
        ("002", "table.txt") => include_str!("../../published/002/table.txt"),
        ("002", "repository.txt") => include_str!("../../published/002/repository.txt"),
        ("003", "study.toml") => include_str!("../../published/003/study.toml"),
        ("003", "rpc-bench.txt") => include_str!("../../published/003/rpc-bench.txt"),
        ("004", "study.toml") => include_str!("../../published/004/study.toml"),
        ("004", "ab.txt") => include_str!("../../published/004/ab.txt"),
        ("004", "boom.txt") => include_str!("../../published/004/boom.txt"),
        _ => return None,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    title: String,
    question: String,
    tool: String,
    sheet: Vec<FileSheet>,
    conditions: FileConditions,
    #[serde(default)]
    ceiling: Vec<FileCeiling>,
    #[serde(default)]
    treatment: Vec<FileTreatment>,
    #[serde(default)]
    unequal: Vec<FileRemark>,
    #[serde(default)]
    remark: Vec<FileRemark>,
    #[serde(default)]
    claim: Vec<FileClaim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSheet {
    file: String,
    format: String,
    seconds: Option<f64>,
    clients: Option<f64>,
    /// Dimensions whose values form the row's name, joined by dashes; the last one takes the rest.
    #[serde(default)]
    names: Vec<String>,
    /// Words that may follow the last of them and become a separate dimension `variant`.
    #[serde(default)]
    variants: Vec<String>,
    /// Bytes of a response by dimension and value.
    #[serde(default)]
    bytes: BTreeMap<String, BTreeMap<String, f64>>,
    /// Dimensions of each row in order; `name` replaces its name.
    #[serde(default)]
    rows: Vec<BTreeMap<String, String>>,
    /// Appended to the name of each row.
    #[serde(default)]
    suffix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConditions {
    failures_counted: bool,
    runs: u32,
    spread: bool,
    #[serde(default)]
    percentiles_averaged: bool,
    network_gbit: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCeiling {
    rows: BTreeMap<String, String>,
    #[serde(default)]
    twice: BTreeMap<String, String>,
    connections: f64,
    words: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTreatment {
    name: String,
    words: String,
    evidence: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRemark {
    #[serde(default)]
    rule: String,
    #[serde(default)]
    rows: BTreeMap<String, String>,
    title: String,
    words: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClaim {
    name: String,
    says: String,
    means: Option<String>,
    words: Option<String>,
}

fn build(id: &str) -> Result<Study, String> {
    let source = text(id, "study.toml").unwrap_or_default();
    let file: File = toml::from_str(source).map_err(|error| format!("study {id}: {error}"))?;
    let mut sheet = Sheet {
        title: format!("study {id}: {}", file.title),
        tool: file.tool.clone(),
        ..Sheet::default()
    };
    for part in &file.sheet {
        let read = read_part(id, part)?;
        sheet.rows.extend(read.rows);
        sheet.conditions.remarks.extend(read.conditions.remarks);
    }
    let (id, question) = (file.id.clone(), file.question.clone());
    conditions(file, &mut sheet.conditions);
    Ok(Study {
        id,
        question,
        sheet,
    })
}

fn read_part(id: &str, part: &FileSheet) -> Result<Sheet, String> {
    let missing = || format!("study {id}: no file `{}`", part.file);
    let text = text(id, &part.file).ok_or_else(missing)?;
    let hints = Hints {
        seconds: part.seconds,
        clients: part.clients,
        bytes: None,
    };
    let mut sheet = read::read(text, Format::of_name(&part.format), &hints)?;
    if !part.rows.is_empty() && part.rows.len() != sheet.rows.len() {
        let (said, found) = (part.rows.len(), sheet.rows.len());
        return Err(format!(
            "study {id}: {said} rows described, {found} in {}",
            part.file
        ));
    }
    for (at, row) in sheet.rows.iter_mut().enumerate() {
        name_by_parts(row, part);
        let described = part.rows.get(at).cloned().unwrap_or_default();
        for (dim, value) in described {
            match dim.as_str() {
                "name" => {
                    rename(&mut sheet.conditions.remarks, &row.name, &value);
                    row.name = value;
                }
                _ => {
                    row.dims.insert(dim, value);
                }
            }
        }
        row.name.push_str(&part.suffix);
        for (dim, sizes) in &part.bytes {
            row.declared_bytes = sizes.get(row.dim(dim)).copied().or(row.declared_bytes);
        }
    }
    Ok(sheet)
}

/// Parsers use the name they know in remarks; the study has a better one. Remarks are in the order of rows.
fn rename(remarks: &mut [Remark], old: &str, new: &str) {
    let named = remarks
        .iter_mut()
        .find(|remark| remark.title.starts_with(old));
    if let Some(remark) = named {
        remark.title = remark.title.replacen(old, new, 1);
    }
}

fn name_by_parts(row: &mut Row, part: &FileSheet) {
    if part.names.is_empty() {
        return;
    }
    let name = row.name.clone();
    let values = name.splitn(part.names.len(), '-');
    for (dim, value) in part.names.iter().zip(values) {
        row.dims.insert(dim.clone(), value.to_string());
    }
    let last = &part.names[part.names.len() - 1];
    let value = row.dim(last).to_string();
    let found = part.variants.iter().find_map(|variant| {
        let rest = value.strip_suffix(variant.as_str())?.strip_suffix('-')?;
        Some((rest.to_string(), variant.clone()))
    });
    if let Some((rest, variant)) = found {
        row.dims.insert(last.clone(), rest);
        row.dims.insert("variant".into(), variant);
    }
}

fn conditions(file: File, conditions: &mut Conditions) {
    conditions.failures_counted = Some(file.conditions.failures_counted);
    conditions.runs = Some(file.conditions.runs);
    conditions.spread = file.conditions.spread;
    conditions.percentiles_averaged = file.conditions.percentiles_averaged;
    conditions.network_bits = file.conditions.network_gbit.map(|gigabits| gigabits * 1e9);
    let remark = |remark: FileRemark| Remark {
        rule: remark.rule,
        title: remark.title,
        words: remark.words,
        rows: remark.rows,
    };
    conditions.unequal = file.unequal.into_iter().map(remark).collect();
    conditions
        .remarks
        .extend(file.remark.into_iter().map(remark));
    let ceiling = |ceiling: FileCeiling| Ceiling {
        rows: ceiling.rows,
        twice: ceiling.twice,
        connections: ceiling.connections,
        words: ceiling.words,
    };
    conditions.ceilings = file.ceiling.into_iter().map(ceiling).collect();
    let treatment = |treatment: FileTreatment| Treatment {
        name: treatment.name,
        evidence: treatment.evidence,
        words: treatment.words,
    };
    conditions.treatments = file.treatment.into_iter().map(treatment).collect();
    let claim = |claim: FileClaim| Claim {
        name: claim.name,
        says: claim.says,
        means: claim.means,
        words: claim.words,
        tested: false,
    };
    conditions.claims = file.claim.into_iter().map(claim).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(id: &str) -> Sheet {
        study(id)
            .expect("it is listed")
            .expect("its files are read")
            .sheet
    }

    #[test]
    fn every_study_is_read_whole() {
        for (id, rows) in [
            ("000", 72),
            ("001", 8),
            ("002", 12),
            ("003", 3),
            ("004", 12),
        ] {
            let sheet = sheet(id);
            assert_eq!(sheet.rows.len(), rows, "{id}");
            for row in &sheet.rows {
                assert!(
                    row.clients.is_some() && row.seconds.is_some(),
                    "{id}: {row:?}"
                );
                assert!(row.rate_counted().is_some(), "{id}: {row:?}");
                assert!(!row.dims.is_empty(), "{id}: {row:?}");
            }
        }
        assert!(study("005").is_none());
    }

    #[test]
    fn figures_are_those_of_the_page() {
        let hotdogs = sheet("000");
        let wanted = [
            ("subject", "caddy"),
            ("test", "html-large"),
            ("clients", "10000"),
        ];
        let wanted = wanted.map(|(k, v)| (k.to_string(), v.to_string())).into();
        let row = hotdogs
            .rows
            .iter()
            .find(|row| row.matches(&wanted))
            .unwrap();
        assert_eq!(
            (row.responses, row.latency.max),
            (Some(124_604.0), Some(58_944.72))
        );
        assert_eq!(row.bytes(), Some(289_812.0));
        let total: f64 = hotdogs.rows.iter().filter_map(|row| row.responses).sum();
        assert_eq!(total, 37_944_000.0);
        let go = &sheet("001").rows[5];
        assert_eq!((go.rate, go.latency.mean), (Some(74_442.91), Some(336.77)));
        assert_eq!(go.name, "nginx to HTTP, GOMAXPROCS 8");
        let failing = &sheet("004").rows[3];
        assert_eq!(failing.failed_share, Some(0.970_161));
        assert_eq!(failing.latency.quantile(0.99), Some(970.0));
        let calls = &sheet("003").rows[0];
        assert_eq!((calls.responses, calls.rate), (Some(25_138.0), Some(411.0)));
        assert_eq!(calls.response_bytes.map(f64::round), Some(140_956.0));
    }
}
