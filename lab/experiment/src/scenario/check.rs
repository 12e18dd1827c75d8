//! Checks a scenario file and converts it to a scenario.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;

use super::form::{
    EachForm, Form, LevelForm, OrderForm, PhaseForm, StepParts, ThinkForm, VariableForm,
};
use super::{SCHEMA, read_text};
use crate::limits::{MISTAKES_MAX, OPEN_CLIENTS, SCENARIO_MAX};
use crate::position::position;
use sluice_load::generator::limits::{
    CLIENTS_MAX, MIX_MAX, MIX_SEQUENCE_MAX, PHASES_MAX, TEMPLATE_BYTES_MAX, VALUES_MAX,
    VARIABLES_MAX,
};
use sluice_load::generator::scenario::{
    Pace, Phase, Scenario, Session, Step, StepExpect, Template, Values, Variable, VariableScope,
};
use sluice_load::quantity::parse_duration;

/// Headers that follow from the request or the connection.
const OWN_HEADERS: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// The mistakes found so far.
#[derive(Debug, Default)]
struct Mistakes(Vec<(usize, String)>);

impl Mistakes {
    fn add<T>(&mut self, place: &Spanned<T>, text: impl Into<String>) {
        self.0.push((place.span().start, text.into()));
    }

    /// All in the order of the file, one per line; `None` if there are none.
    fn report(mut self, name: &str, text: &str) -> Option<String> {
        self.0.sort_by_key(|(at, _)| *at);
        let more = self.0.len().saturating_sub(MISTAKES_MAX);
        let shown = self.0.iter().take(MISTAKES_MAX);
        let lines = shown.map(|(at, mistake)| format!("{}: {mistake}", position(name, text, *at)));
        let mut lines: Vec<String> = lines.collect();
        if more > 0 {
            lines.push(format!("{name}: {more} more mistakes"));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Checks a file, and converts it. The error has a line for each mistake.
pub fn check(name: &str, text: &str, form: &Form, folder: &Path) -> Result<Scenario, String> {
    let mut mistakes = Mistakes::default();
    if form.schema.get_ref() != SCHEMA {
        let found = form.schema.get_ref();
        let text = format!("schema is `{found}`; this version reads `{SCHEMA}`");
        mistakes.add(&form.schema, text);
    }
    if form.name.get_ref().is_empty() || form.name.get_ref().contains(char::is_control) {
        mistakes.add(
            &form.name,
            "the name is empty or contains control characters",
        );
    }
    let (pace, phases) = phases(form, &mut mistakes);
    let variables = variables(&form.vars, &mut mistakes);
    let mut reader = Reader {
        variables: &variables,
        headers: &form.headers,
        folder,
        mistakes: &mut mistakes,
    };
    let sessions = reader.sessions(form);
    if sessions.is_empty() {
        mistakes.add(
            &form.name,
            "there is neither a [[session]] nor a [[request]]",
        );
    }
    let steps: usize = sessions.iter().map(|session| session.steps.len()).sum();
    if steps > MIX_MAX || sessions.len() > PHASES_MAX.max(MIX_MAX) {
        let text = format!("{steps} steps in all sessions together; at most {MIX_MAX}");
        mistakes.add(&form.name, text);
    }
    let weights: u64 = sessions.iter().map(|one| u64::from(one.weight)).sum();
    if weights > MIX_SEQUENCE_MAX {
        let text = format!("the weights add up to {weights}; at most {MIX_SEQUENCE_MAX}");
        mistakes.add(&form.name, text);
    }
    match mistakes.report(name, text) {
        Some(report) => Err(report),
        None => Ok(Scenario {
            name: form.name.get_ref().clone(),
            pace,
            phases,
            variables,
            sessions,
        }),
    }
}

/// The phases, and what they set.
fn phases(form: &Form, mistakes: &mut Mistakes) -> (Pace, Vec<Phase>) {
    let opens = |phase: &Spanned<PhaseForm>| phase.get_ref().rate.is_some();
    let is_open = form.phase.first().is_some_and(opens);
    let phases = form.phase.iter().enumerate();
    let phases: Vec<Phase> = phases
        .filter_map(|(at, phase)| one_phase(at, phase, is_open, mistakes))
        .collect();
    if form.phase.is_empty() {
        let text = "there is no [[phase]]; add one with `duration` and `clients` or `rate`";
        mistakes.add(&form.name, text);
    } else if form.phase.len() > PHASES_MAX {
        let text = format!("{} phases; at most {PHASES_MAX}", form.phase.len());
        mistakes.add(&form.phase[PHASES_MAX], text);
    } else if phases.iter().all(|one| one.from == 0.0 && one.to == 0.0) && !phases.is_empty() {
        mistakes.add(&form.phase[0], "no phase has a level above 0");
    }
    let whole: Duration = phases.iter().map(|phase| phase.duration).sum();
    if whole > SCENARIO_MAX {
        mistakes.add(&form.name, "the phases take more than 24 hours together");
    }
    let clients_max = match &form.clients_max {
        None => OPEN_CLIENTS,
        Some(given) => match usize::try_from(*given.get_ref()) {
            Ok(count @ 1..=CLIENTS_MAX) => count,
            _ => {
                let text = format!("`clients_max` is a number from 1 to {CLIENTS_MAX}");
                mistakes.add(given, text);
                1
            }
        },
    };
    if !is_open {
        let text = "applies to phases with `rate`; those with `clients` say how many there are";
        if let Some(given) = &form.clients_max {
            mistakes.add(given, format!("`clients_max` {text}"));
        }
        if let Some(given) = &form.poisson {
            mistakes.add(given, format!("`poisson` {text}"));
        }
        return (Pace::Clients, phases);
    }
    let pace = Pace::Sessions {
        clients_max,
        poisson: form.poisson.as_ref().is_some_and(|given| *given.get_ref()),
    };
    (pace, phases)
}

fn one_phase(
    at: usize,
    spanned: &Spanned<PhaseForm>,
    is_open: bool,
    mistakes: &mut Mistakes,
) -> Option<Phase> {
    let phase = spanned.get_ref();
    let level = match (&phase.clients, &phase.rate) {
        (Some(_), Some(rate)) => {
            mistakes.add(rate, "a phase has either `clients` or `rate`");
            return None;
        }
        (None, None) => {
            let text = "a phase needs `clients` (closed loop) or `rate` (open loop)";
            mistakes.add(spanned, text);
            return None;
        }
        (Some(clients), None) if is_open => {
            let text = "the first phase has a `rate`, so all phases need one";
            mistakes.add(clients, text);
            return None;
        }
        (None, Some(rate)) if !is_open => {
            mistakes.add(
                rate,
                "the first phase has `clients`, so all phases need them",
            );
            return None;
        }
        (Some(level), None) | (None, Some(level)) => level,
    };
    let (from, to) = match *level.get_ref() {
        LevelForm::Same(level) => (level, level),
        LevelForm::Ramp([from, to]) => (from, to),
    };
    let most = if is_open { 1e7 } else { CLIENTS_MAX as f64 };
    for number in [from, to] {
        let whole = is_open || number.fract() == 0.0;
        if !(0.0..=most).contains(&number) || !whole {
            let what = if is_open { "a rate" } else { "a whole number" };
            let text = format!("`{number}` is not {what} from 0 to {most:.0}");
            mistakes.add(level, text);
        }
    }
    let duration = duration(&phase.duration, mistakes).unwrap_or_default();
    if duration.is_zero() {
        mistakes.add(&phase.duration, "a phase takes longer than 0 s");
    }
    let name = phase.name.clone();
    Some(Phase {
        name: name.unwrap_or_else(|| format!("phase {}", at + 1)),
        duration,
        from,
        to,
    })
}

fn duration(text: &Spanned<String>, mistakes: &mut Mistakes) -> Option<Duration> {
    match parse_duration(text.get_ref()) {
        Ok(duration) if duration <= SCENARIO_MAX => Some(duration),
        Ok(_) => {
            mistakes.add(text, "longer than 24 hours");
            None
        }
        Err(error) => {
            mistakes.add(text, error);
            None
        }
    }
}

fn variables(
    forms: &BTreeMap<Spanned<String>, Spanned<VariableForm>>,
    mistakes: &mut Mistakes,
) -> Vec<Variable> {
    if forms.len() > VARIABLES_MAX
        && let Some((name, _)) = forms.iter().nth(VARIABLES_MAX)
    {
        let text = format!("{} variables; at most {VARIABLES_MAX}", forms.len());
        mistakes.add(name, text);
    }
    let variable = |(name, spanned): (&Spanned<String>, &Spanned<VariableForm>)| {
        let form = spanned.get_ref();
        let fits = |c: char| c.is_alphanumeric() || "-_".contains(c);
        if name.get_ref().is_empty() || !name.get_ref().chars().all(fits) {
            let text = "names of variables have letters, digits, `-` and `_`";
            mistakes.add(name, text);
        }
        let values = values(form).unwrap_or_else(|text| {
            mistakes.add(spanned, text);
            Values::Turns(vec![String::new()])
        });
        Variable {
            name: name.get_ref().clone(),
            values,
            scope: match form.each {
                None | Some(EachForm::Session) => VariableScope::Session,
                Some(EachForm::Request) => VariableScope::Request,
            },
        }
    };
    forms.iter().map(variable).collect()
}

fn values(form: &VariableForm) -> Result<Values, String> {
    let needs = || "a variable needs one of `counter`, `random` and `list`".to_string();
    let ordered = |[from, to]: [u64; 2]| match from <= to {
        true => Ok((from, to)),
        false => Err(format!(
            "{from} is above {to}: write the smaller number first"
        )),
    };
    if form.order.is_some() && form.list.is_none() {
        return Err("`order` applies to a `list`".to_string());
    }
    match (form.counter, form.random, &form.list) {
        (Some(range), None, None) => {
            let (from, to) = ordered(range)?;
            Ok(Values::Counter { from, to })
        }
        (None, Some(range), None) => {
            let (from, to) = ordered(range)?;
            Ok(Values::Random { from, to })
        }
        (None, None, Some(list)) if list.is_empty() => Err("the list is empty".to_string()),
        (None, None, Some(list)) if list.len() > VALUES_MAX => Err(format!(
            "a list of {} values; at most {VALUES_MAX}",
            list.len()
        )),
        (None, None, Some(list)) => Ok(match form.order {
            None | Some(OrderForm::Turns) => Values::Turns(list.clone()),
            Some(OrderForm::Random) => Values::Pick(list.clone()),
        }),
        _ => Err(needs()),
    }
}

/// Steps with the same name get a number, since figures are distinguished by name.
fn unique(steps: &mut [&mut Step]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps {
        let count = seen.entry(step.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            step.name = format!("{} ({count})", step.name);
        }
    }
}

/// Converts sessions and steps.
struct Reader<'a> {
    variables: &'a [Variable],
    /// Headers of every request.
    headers: &'a BTreeMap<Spanned<String>, Spanned<String>>,
    folder: &'a Path,
    mistakes: &'a mut Mistakes,
}

impl Reader<'_> {
    fn sessions(&mut self, form: &Form) -> Vec<Session> {
        let mut sessions = Vec::new();
        for spanned in &form.session {
            let session = spanned.get_ref();
            if session.step.is_empty() {
                let text = format!("session `{}` has no [[session.step]]", session.name);
                self.mistakes.add(spanned, text);
            }
            let cookies = session.cookies.unwrap_or(true);
            let steps = session.step.iter();
            let steps = steps.map(|step| self.step(step.get_ref().parts(), cookies));
            let mut steps: Vec<Step> = steps.collect();
            unique(&mut steps.iter_mut().collect::<Vec<_>>());
            sessions.push(Session {
                name: session.name.clone(),
                steps,
                weight: self.weight(session.weight.as_ref()),
                cookies,
                new_connection: session.new_connection,
            });
        }
        let first = sessions.len();
        for spanned in &form.request {
            let request = spanned.get_ref();
            let step = self.step(request.parts(), false);
            sessions.push(Session {
                name: "request".into(),
                weight: self.weight(request.weight.as_ref()),
                cookies: false,
                new_connection: false,
                steps: vec![step],
            });
        }
        let requests = sessions[first..].iter_mut();
        unique(&mut requests.flat_map(|one| &mut one.steps).collect::<Vec<_>>());
        sessions
    }

    fn weight(&mut self, weight: Option<&Spanned<i64>>) -> u32 {
        let Some(given) = weight else {
            return 1;
        };
        match u32::try_from(*given.get_ref()) {
            Ok(weight) if weight > 0 => weight,
            _ => {
                let text = format!("a weight is a number from 1 to {MIX_SEQUENCE_MAX}");
                self.mistakes.add(given, text);
                1
            }
        }
    }

    fn step(&mut self, parts: StepParts<'_>, cookies: bool) -> Step {
        let body = self.body(parts);
        let default = match body {
            Some(_) => "POST",
            None => "GET",
        };
        let method = parts.method.map_or(default, |method| method.get_ref());
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
        if let Some(given) = parts.method
            && (method.is_empty() || !method.bytes().all(is_token) || method == "CONNECT")
        {
            self.mistakes
                .add(given, format!("`{method}` cannot be sent as a method"));
        }
        let path = parts.path.get_ref();
        let bad = |c: char| c.is_whitespace() || c.is_control() || !c.is_ascii();
        if !path.starts_with('/') || path.contains(bad) {
            let text =
                "a path begins with `/` and is percent-encoded; the host is that of the target";
            self.mistakes.add(parts.path, text);
        }
        let (think_min, think_max) = self.think(parts.think);
        Step {
            name: match parts.name {
                Some(name) => name.clone(),
                None => format!("{method} {path}"),
            },
            method: method.to_string(),
            path: self.template(parts.path),
            headers: self.request_headers(parts.headers, cookies),
            body: body.unwrap_or_default(),
            think_min,
            think_max,
            expect: self.expect(parts),
        }
    }

    fn template(&mut self, text: &Spanned<String>) -> Template {
        if text.get_ref().len() > TEMPLATE_BYTES_MAX {
            let text_of = format!("longer than {TEMPLATE_BYTES_MAX} bytes");
            self.mistakes.add(text, text_of);
        }
        let index = |name: &str| self.variables.iter().position(|one| one.name == name);
        Template::parse(text.get_ref(), index).unwrap_or_else(|error| {
            self.mistakes.add(text, error);
            Template::default()
        })
    }

    fn body(&mut self, parts: StepParts<'_>) -> Option<Template> {
        match (parts.body, parts.body_file) {
            (Some(_), Some(file)) => {
                self.mistakes
                    .add(file, "a step has either `body` or `body_file`");
                None
            }
            (Some(body), None) => Some(self.template(body)),
            (None, None) => None,
            (None, Some(file)) => match read_text(&self.folder.join(file.get_ref())) {
                Ok(text) => Some(Template::literal(text)),
                Err(error) => {
                    self.mistakes.add(file, error);
                    None
                }
            },
        }
    }

    /// The headers of a step, which replace those of the file with the same names.
    fn request_headers(
        &mut self,
        own: &BTreeMap<Spanned<String>, Spanned<String>>,
        cookies: bool,
    ) -> Vec<(String, Template)> {
        let replaced = |name: &Spanned<String>| {
            let mut names = own.keys();
            names.any(|one| one.get_ref().eq_ignore_ascii_case(name.get_ref()))
        };
        let common = self.headers.iter().filter(|(name, _)| !replaced(name));
        let all: Vec<_> = common.chain(own).collect();
        let mut headers = Vec::new();
        for (name, value) in all {
            let lower = name.get_ref().to_ascii_lowercase();
            if OWN_HEADERS.contains(&lower.as_str()) {
                let text = format!(
                    "`{}` follows from the request and the target",
                    name.get_ref()
                );
                self.mistakes.add(name, text);
            }
            if lower == "cookie" && cookies {
                let text = "the session sends the cookies that the target sets; add `cookies = false` to send this instead";
                self.mistakes.add(name, text);
            }
            let is_token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte);
            if lower.is_empty() || !lower.bytes().all(is_token) {
                self.mistakes
                    .add(name, format!("invalid header name `{}`", name.get_ref()));
            }
            let template = self.template(value);
            let strange = |text: &str| text.contains(['\r', '\n', '\0']);
            let breaks = template.variables().any(|at| {
                let values = self.variables.get(at).map(|variable| &variable.values);
                match values {
                    Some(Values::Turns(list) | Values::Pick(list)) => {
                        list.iter().any(|value| strange(value))
                    }
                    Some(Values::Counter { .. } | Values::Random { .. }) | None => false,
                }
            });
            if template.texts().any(strange) || breaks {
                self.mistakes
                    .add(value, "a header cannot contain a line break");
            }
            headers.push((name.get_ref().clone(), template));
        }
        headers
    }

    fn think(&mut self, think: Option<&Spanned<ThinkForm>>) -> (Duration, Duration) {
        let Some(given) = think else {
            return (Duration::ZERO, Duration::ZERO);
        };
        let (min, max) = match given.get_ref() {
            ThinkForm::Same(same) => (same, same),
            ThinkForm::Between([min, max]) => (min, max),
        };
        let mut one = |text: &String| match parse_duration(text) {
            Ok(duration) if duration <= SCENARIO_MAX => duration,
            Ok(_) => {
                self.mistakes.add(given, "longer than 24 hours");
                Duration::ZERO
            }
            Err(error) => {
                self.mistakes.add(given, error);
                Duration::ZERO
            }
        };
        let (min, max) = (one(min), one(max));
        if min > max {
            let text = "the shortest think time comes first";
            self.mistakes.add(given, text);
        }
        (min, max)
    }

    fn expect(&mut self, parts: StepParts<'_>) -> StepExpect {
        let expect = parts.expect;
        let status =
            expect
                .status
                .as_ref()
                .map_or(200, |given| match u16::try_from(*given.get_ref()) {
                    Ok(status @ 200..=599) => status,
                    _ => {
                        self.mistakes
                            .add(given, "a status is a number from 200 to 599");
                        200
                    }
                });
        if let (Some(_), Some(length)) = (&expect.body, &expect.length) {
            self.mistakes.add(length, "`body` has a length already");
        }
        let length = expect.length.as_ref().and_then(|given| {
            let length = u64::try_from(*given.get_ref()).ok();
            if length.is_none() {
                self.mistakes.add(given, "a length is not negative");
            }
            length
        });
        let header = |(name, value): (&String, &String)| {
            let value = (!value.is_empty()).then(|| value.clone());
            (name.clone(), value)
        };
        StepExpect {
            status,
            body: expect.body.as_ref().map(|body| body.get_ref().clone()),
            length,
            headers: expect.headers.iter().map(header).collect(),
        }
    }
}
