//! The formats of log entries: `format` of `log`.

use serde_json::{Value, json};
use sluice_model::RawModule;
use sluice_model::logging::{
    AppendEncoder, FilterEncoder, JournaldEncoder, LineEncoder, LogEncoder,
};

use super::Lowering;
use super::definition::Read::{Flag, Text, With};
use super::definition::{Options, option};
use super::matchers::inner_line;
use crate::tree::{Directive, Token};

/// The options of `json` and `console`.
pub(super) static FORMAT: Options<LineEncoder> = Options::new(
    "format",
    &[
        option(
            "message_key",
            "message_key <key>",
            With(|cx, line, encoder| {
                encoder.message_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "level_key",
            "level_key <key>",
            With(|cx, line, encoder| {
                encoder.level_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "time_key",
            "time_key <key>",
            With(|cx, line, encoder| {
                encoder.time_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "name_key",
            "name_key <key>",
            With(|cx, line, encoder| {
                encoder.name_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "caller_key",
            "caller_key <key>",
            With(|cx, line, encoder| {
                encoder.caller_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "stacktrace_key",
            "stacktrace_key <key>",
            With(|cx, line, encoder| {
                encoder.stacktrace_key = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "line_ending",
            "line_ending <char>",
            With(|cx, line, encoder| {
                encoder.line_ending = Some(cx.single_text(line)?);
                Some(())
            }),
        ),
        option(
            "time_format",
            "time_format <format>",
            Text(|encoder| &mut encoder.time_format),
        ),
        option(
            "time_local",
            "time_local",
            Flag(|encoder| &mut encoder.time_local),
        ),
        option(
            "duration_format",
            "duration_format <format>",
            Text(|encoder| &mut encoder.duration_format),
        ),
        option(
            "level_format",
            "level_format <format>",
            Text(|encoder| &mut encoder.level_format),
        ),
    ],
);

const ENCODERS: [&str; 5] = ["console", "json", "filter", "append", "journald"];

const FILTERS: [&str; 9] = [
    "delete",
    "rename",
    "replace",
    "ip_mask",
    "query",
    "cookie",
    "regexp",
    "hash",
    "multi_regexp",
];

impl Lowering<'_> {
    /// Reads an encoder from a line that begins with its name.
    pub(super) fn log_encoder(&mut self, line: &Directive) -> Option<LogEncoder> {
        match line.name.text.as_str() {
            "console" => Some(LogEncoder::Console(self.line_encoder(line)?)),
            "json" => Some(LogEncoder::Json(self.line_encoder(line)?)),
            "filter" => Some(LogEncoder::Filter(self.filter_encoder(line)?)),
            "append" => Some(LogEncoder::Append(self.append_encoder(line)?)),
            "journald" => Some(LogEncoder::Journald(self.journald_encoder(line)?)),
            _ => self.unknown_module(&line.name, "log format", &ENCODERS),
        }
    }

    fn line_encoder(&mut self, line: &Directive) -> Option<LineEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = LineEncoder::default();
        self.read_options(&FORMAT, line.lines(), &mut encoder)?;
        Some(encoder)
    }

    fn wrapped(&mut self, line: &Directive) -> Option<Box<LogEncoder>> {
        match inner_line(line) {
            Some(inner) => self.log_encoder(&inner).map(Box::new),
            None => self.missing(line, "the format to wrap"),
        }
    }

    fn journald_encoder(&mut self, line: &Directive) -> Option<JournaldEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = JournaldEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn append_encoder(&mut self, line: &Directive) -> Option<AppendEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = AppendEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                "fields" => {
                    this.each(option.lines(), |this, field| {
                        let value = this.single(field)?;
                        encoder
                            .fields
                            .insert(field.name.text.clone(), super::directives::scalar(value));
                        Some(())
                    })?;
                }
                name => {
                    let value = this.single(option)?;
                    encoder
                        .fields
                        .insert(name.to_string(), super::directives::scalar(value));
                }
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn filter_encoder(&mut self, line: &Directive) -> Option<FilterEncoder> {
        self.between(line, &line.args, 0, 0)?;
        let mut encoder = FilterEncoder::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "wrap" => encoder.wrap = Some(this.wrapped(option)?),
                "fields" => {
                    this.each(option.lines(), |this, field| {
                        this.filter_field(field, &mut encoder)?;
                        Some(())
                    })?;
                }
                _ => this.filter_field(option, &mut encoder)?,
            }
            Some(())
        })?;
        Some(encoder)
    }

    fn filter_field(&mut self, line: &Directive, encoder: &mut FilterEncoder) -> Option<()> {
        let Some((filter, args)) = line.args.split_first() else {
            return self.missing(line, "a filter such as `delete`");
        };
        let mut module = RawModule::new();
        let mut put = |key: &str, value: Value| module.insert(key.to_string(), value);
        put("filter", filter.text.as_str().into());
        match filter.text.as_str() {
            "delete" | "hash" => {
                self.exact::<0>(line, args)?;
            }
            "rename" => {
                let [name] = self.exact::<1>(line, args)?;
                put("name", name.text.as_str().into());
            }
            "replace" => {
                let [value] = self.exact::<1>(line, args)?;
                put("value", value.text.as_str().into());
            }
            "regexp" => {
                let [pattern, value] = self.exact::<2>(line, args)?;
                put("regexp", pattern.text.as_str().into());
                put("value", value.text.as_str().into());
            }
            "ip_mask" => {
                let (ipv4, ipv6) = self.ip_mask(line, args)?;
                if let Some(bits) = ipv4 {
                    put("ipv4_cidr", bits.into());
                }
                if let Some(bits) = ipv6 {
                    put("ipv6_cidr", bits.into());
                }
            }
            "query" | "cookie" => {
                self.exact::<0>(line, args)?;
                let key = if filter.text == "query" {
                    "parameter"
                } else {
                    "name"
                };
                put("actions", self.filter_actions(line, key)?);
            }
            "multi_regexp" => {
                self.exact::<0>(line, args)?;
                let mut operations = Vec::new();
                self.each(line.lines(), |this, operation| {
                    let [pattern, value] = this.exact::<2>(operation, &operation.args)?;
                    operations.push(json!({"regexp": pattern.text, "value": value.text}));
                    Some(())
                })?;
                put("operations", operations.into());
            }
            _ => return self.unknown_module(filter, "log filter", &FILTERS),
        }
        self.put_filter(line, module, encoder)
    }

    /// Gives a field its filter. Only patterns may be several: they become one filter.
    fn put_filter(
        &mut self,
        line: &Directive,
        module: RawModule,
        encoder: &mut FilterEncoder,
    ) -> Option<()> {
        let field = &line.name.text;
        let Some(first) = encoder.fields.get_mut(field) else {
            encoder.fields.insert(field.clone(), module);
            return Some(());
        };
        let is_pattern = |module: &RawModule| module.get("filter") == Some(&json!("regexp"));
        let is_joined = first.get("filter") == Some(&json!("multi_regexp"));
        if !is_pattern(&module) || !(is_pattern(first) || is_joined) {
            let title = format!("field `{field}` already has a filter");
            let diagnostic = line.name.error("duplicate-option", title, "a second one");
            return self.refuse(diagnostic.help("only `regexp` may be used several times"));
        }
        let operation =
            |module: &RawModule| json!({"regexp": module["regexp"], "value": module["value"]});
        if !is_joined {
            let operations = json!([operation(first)]);
            *first = RawModule::new();
            first.insert("filter".to_owned(), "multi_regexp".into());
            first.insert("operations".to_owned(), operations);
        }
        if let Some(Value::Array(operations)) = first.get_mut("operations") {
            operations.push(operation(&module));
        }
        Some(())
    }

    fn ip_mask(&mut self, line: &Directive, args: &[Token]) -> Option<(Option<u8>, Option<u8>)> {
        self.between(line, args, 0, 2)?;
        let mut bits = [None, None];
        for (at, word) in args.iter().enumerate() {
            bits[at] = Some(self.number(word, "a number of bits")?);
        }
        self.each(line.lines(), |this, option| {
            let word = this.single(option)?;
            let number = Some(this.number(word, "a number of bits")?);
            match option.name.text.as_str() {
                "ipv4" => bits[0] = number,
                "ipv6" => bits[1] = number,
                _ => return this.invalid_value(&option.name, &["ipv4", "ipv6"]),
            }
            Some(())
        })?;
        let [ipv4, ipv6] = bits;
        Some((ipv4, ipv6))
    }

    fn filter_actions(&mut self, line: &Directive, key: &str) -> Option<Value> {
        let mut actions = Vec::new();
        self.each(line.lines(), |this, option| {
            let action = option.name.text.as_str();
            match (action, option.args.as_slice()) {
                ("replace", [name, value]) => {
                    actions.push(json!({"type": action, key: name.text, "value": value.text}));
                }
                ("delete" | "hash", [name]) => {
                    actions.push(json!({"type": action, key: name.text}));
                }
                ("replace" | "delete" | "hash", _) => {
                    return this.missing(option, "a name, and `replace` a value");
                }
                _ => return this.invalid_value(&option.name, &["replace", "delete", "hash"]),
            }
            Some(())
        })?;
        Some(actions.into())
    }
}
