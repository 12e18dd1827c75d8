//! Scenario files made from other descriptions of requests. What could not be taken over is listed at the top.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::SCHEMA;
use sluice_load::generator::limits::MIX_MAX;

/// A scenario file to be written.
#[derive(Debug, Default)]
pub struct Written {
    /// Where it comes from, as in `shop.har`.
    pub source: String,
    /// The name of the scenario.
    pub name: String,
    /// Reasons why something is omitted, with the number of cases.
    pub omitted: BTreeMap<String, u64>,
    /// Variables with a list of values each.
    pub lists: BTreeMap<String, Vec<String>>,
    /// Variables with a range each.
    pub ranges: BTreeMap<String, [u64; 2]>,
    /// The requests, in order.
    pub steps: Vec<WrittenStep>,
    /// Whether they are steps of one session, rather than requests of their own.
    pub is_session: bool,
}

/// A request to be written. Paths, headers and bodies are templates.
#[derive(Clone, Debug, Default)]
pub struct WrittenStep {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: String,
    /// Think time after it, in milliseconds.
    pub think_ms: u64,
    /// The expected status.
    pub status: u16,
}

impl Written {
    /// Counts something that is omitted.
    pub fn omit(&mut self, reason: impl Into<String>) {
        *self.omitted.entry(reason.into()).or_insert(0) += 1;
    }

    /// Adds a request, unless there are too many.
    pub fn add(&mut self, step: WrittenStep) {
        match self.steps.len() < MIX_MAX {
            true => self.steps.push(step),
            false => self.omit(format!("request after the first {MIX_MAX}")),
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "# From {} by `sluice-lab import`.",
            one_line(&self.source)
        )?;
        for line in self.omissions() {
            writeln!(out, "# {}", one_line(&line))?;
        }
        writeln!(out, "schema = {}", quoted(SCHEMA))?;
        writeln!(out, "name = {}\n", quoted(&self.name))?;
        for (name, list) in &self.lists {
            let values: Vec<String> = list.iter().map(|value| quoted(value)).collect();
            writeln!(out, "[vars.{name}]\nlist = [{}]\n", values.join(", "))?;
        }
        for (name, [from, to]) in &self.ranges {
            writeln!(out, "[vars.{name}]\nrandom = [{from}, {to}]\n")?;
        }
        writeln!(out, "# The load: change it to yours.")?;
        writeln!(
            out,
            "[[phase]]\nname = \"steady\"\nduration = \"10s\"\nclients = 10\n"
        )?;
        if self.is_session {
            writeln!(out, "[[session]]\nname = \"recorded\"\n")?;
        }
        self.steps.iter().try_for_each(|step| self.step(step, out))
    }

    fn step(&self, step: &WrittenStep, out: &mut String) -> std::fmt::Result {
        let table = if self.is_session {
            "session.step"
        } else {
            "request"
        };
        writeln!(out, "[[{table}]]")?;
        writeln!(out, "method = {}", quoted(&step.method))?;
        writeln!(out, "path = {}", quoted(&step.path))?;
        if !step.headers.is_empty() {
            let headers = step.headers.iter();
            let headers =
                headers.map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
            let headers: Vec<String> = headers.collect();
            writeln!(out, "headers = {{ {} }}", headers.join(", "))?;
        }
        if !step.body.is_empty() {
            writeln!(out, "body = {}", quoted(&step.body))?;
        }
        if step.think_ms > 0 {
            writeln!(out, "think = \"{}ms\"", step.think_ms)?;
        }
        if step.status != 200 {
            writeln!(out, "expect = {{ status = {} }}", step.status)?;
        }
        writeln!(out)
    }

    /// What is omitted, in lines.
    pub fn omissions(&self) -> Vec<String> {
        let line = |(reason, count): (&String, &u64)| format!("omitted: {count} x {reason}");
        self.omitted.iter().map(line).collect()
    }
}

/// A TOML string. The escapes of JSON are valid in TOML; DEL is not allowed as it is.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007f")
}

/// Text that cannot leave its comment.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// A text in which nothing is a variable.
pub fn literal(text: &str) -> String {
    text.replace('$', "$$")
}
