//! The variables in the configuration of `transport fastcgi`, `scgi` and `uwsgi`: those that do not depend on the request
//! are encoded once. `fastcgi` adds them to requests.

use sluice_model::proxy::FastCgiTransport;
use sluice_pipeline::refusal::Refusal;
use sluice_route::Template;
use sluice_wire::cgi::{HEADER_PREFIX, VariableName};

use super::params::{CONTENT_LENGTH, Dialect, Name, Run};

/// Some of the configured variables, in order.
pub enum Configured {
    /// Variables that do not depend on the request.
    Constant(Run),
    /// One that does.
    Variable {
        /// Its name.
        name: Name,
        /// Its value.
        value: Value,
        /// What is done if that is empty.
        empty: Empty,
    },
}

/// How the value of a variable follows from a request.
pub enum Value {
    /// The text.
    Text(Template),
    /// The name of a file: values of the request cannot escape the folders configured in it.
    Path(Template),
    /// The length of the body that is sent, which may have been buffered to determine it, as in nginx; the text for a
    /// request without one.
    BodyLength(Template),
}

/// Variables with file names.
const PATH_VARIABLES: [&[u8]; 9] = [
    b"SCRIPT_FILENAME",
    b"DOCUMENT_ROOT",
    b"CONTEXT_DOCUMENT_ROOT",
    b"PATH_TRANSLATED",
    b"UWSGI_FILE",
    b"UWSGI_CHDIR",
    b"UWSGI_HOME",
    b"UWSGI_PYHOME",
    b"UWSGI_TOUCH_RELOAD",
];

/// What is done with a variable whose value is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// It is sent.
    Send,
    /// It is left out: `if_not_empty` of nginx.
    Omit,
}

/// The names of configured variables.
#[derive(Debug, Default)]
pub struct Taken {
    /// Those that a request header may have, too: usually none, so that headers are not compared with the others.
    of_headers: Vec<Box<[u8]>>,
    others: Vec<Box<[u8]>>,
}

/// The configured variables and their names. Those that do not depend on the request are encoded here; one that the
/// protocol cannot carry is left to each request, which then fails.
pub fn configured(
    dialect: Dialect,
    config: &FastCgiTransport,
) -> Result<(Vec<Configured>, Taken), Refusal> {
    let (mut variables, mut taken) = (Vec::new(), Taken::default());
    for (name, value) in &config.env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Refusal::new(format!("env `{name}` is not a variable name")));
        }
        let value = Template::parse(value).map_err(|error| Refusal::new(error.to_string()))?;
        taken.add(name.as_bytes());
        let empty = match config.env_if_not_empty.contains(name) {
            true => Empty::Omit,
            false => Empty::Send,
        };
        // The length of a body takes the place of the configured one.
        let is_length = config.only_env && name.as_bytes() == CONTENT_LENGTH;
        let literal = value.literal().filter(|_| !is_length);
        if literal.is_some_and(<[u8]>::is_empty) && empty == Empty::Omit {
            continue;
        }
        if let Some(text) = literal {
            if !matches!(variables.last(), Some(Configured::Constant(_))) {
                variables.push(Configured::Constant(Run::default()));
            }
            if let Some(Configured::Constant(run)) = variables.last_mut()
                && run.push(dialect, name.as_bytes(), text)
            {
                continue;
            }
        }
        let Some(encoded) = Name::encode(dialect, name.as_bytes().into()) else {
            let length = name.len();
            return Err(Refusal::new(format!(
                "env with a name of {length} bytes, which is too long for the protocol"
            )));
        };
        let value = match (is_length, PATH_VARIABLES.contains(&name.as_bytes())) {
            (true, _) => Value::BodyLength(value),
            (false, true) => Value::Path(value),
            (false, false) => Value::Text(value),
        };
        variables.push(Configured::Variable {
            name: encoded,
            value,
            empty,
        });
    }
    Ok((variables, taken))
}

impl Taken {
    /// Exactly these names.
    #[cfg(test)]
    pub fn of<const N: usize>(names: [&[u8]; N]) -> Taken {
        let mut taken = Taken::default();
        names.iter().for_each(|name| taken.add(name));
        taken
    }

    /// Whether a configured variable has this name.
    pub fn has(&self, name: VariableName<'_>) -> bool {
        let may_be_of_header = match name {
            VariableName::OfHeader(_) => true,
            VariableName::Plain(name) => name.starts_with(HEADER_PREFIX),
        };
        let names = match may_be_of_header {
            true => &self.of_headers,
            false => &self.others,
        };
        names.iter().any(|own| name.is(own))
    }

    fn add(&mut self, name: &[u8]) {
        let names = match name.starts_with(HEADER_PREFIX) {
            true => &mut self.of_headers,
            false => &mut self.others,
        };
        names.push(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(env: &[(&str, &str)], omitted: &[&str]) -> FastCgiTransport {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        FastCgiTransport {
            env: env.iter().map(owned).collect(),
            env_if_not_empty: omitted.iter().map(|name| (*name).to_owned()).collect(),
            only_env: true,
            ..FastCgiTransport::default()
        }
    }

    fn kind(value: &Value) -> &'static str {
        match value {
            Value::Text(_) => "text",
            Value::Path(_) => "path",
            Value::BodyLength(_) => "length",
        }
    }

    fn run(variables: &[(&str, &str)]) -> Run {
        let mut run = Run::default();
        for (name, value) in variables {
            assert!(run.push(Dialect::FastCgi, name.as_bytes(), value.as_bytes()));
        }
        run
    }

    #[test]
    fn what_does_not_depend_on_the_request_is_encoded_once() {
        let env = [
            ("A", "1"),
            ("B", ""),
            ("C", ""),
            ("CONTENT_LENGTH", "3"),
            ("D", "{method}"),
            ("E", "2"),
            ("F", "no protocol carries \0"),
            ("SCRIPT_FILENAME", "/srv/{path}"),
        ];
        let config = config(&env, &["A", "B", "D"]);
        let (variables, taken) = configured(Dialect::FastCgi, &config).unwrap();
        let mut constant = Vec::new();
        let mut others = Vec::new();
        for variable in &variables {
            match variable {
                Configured::Constant(run) => constant.push(run),
                Configured::Variable { name, value, empty } => {
                    others.push((name, kind(value), *empty))
                }
            }
        }
        assert_eq!(
            constant,
            [&run(&[("A", "1"), ("C", "")]), &run(&[("E", "2")])]
        );
        let name = |text: &str| Name::encode(Dialect::FastCgi, text.as_bytes().into()).unwrap();
        let expected = [
            (&name("CONTENT_LENGTH"), "length", Empty::Send),
            (&name("D"), "text", Empty::Omit),
            (&name("F"), "text", Empty::Send),
            (&name("SCRIPT_FILENAME"), "path", Empty::Send),
        ];
        assert_eq!(others, expected);
        for (name, _) in env {
            assert!(taken.has(name.as_bytes().into()), "{name}");
        }
        assert!(!taken.has(b"G".into()));
    }

    #[test]
    fn configured_variables_stand_for_those_of_headers() {
        let config = config(&[("HTTP_X_ROLE", "a"), ("X_ROLE", "b")], &[]);
        let (_, taken) = configured(Dialect::FastCgi, &config).unwrap();
        assert!(taken.has(VariableName::OfHeader(b"x-Role")));
        assert!(taken.has(b"HTTP_X_ROLE".into()));
        assert!(taken.has(b"X_ROLE".into()));
        assert!(!taken.has(VariableName::OfHeader(b"X-Roles")));
        assert!(!taken.has(b"HTTP_X".into()));
    }

    #[test]
    fn a_name_that_no_variable_can_have_is_refused() {
        let refused = |dialect, name: &str| {
            let config = config(&[(name, "{method}")], &[]);
            configured(dialect, &config)
                .err()
                .map(|refusal| refusal.to_string())
        };
        for name in ["", "A=B", "A\0"] {
            assert!(refused(Dialect::FastCgi, name).is_some());
        }
        let long = "X".repeat(0x10000);
        let uwsgi = Dialect::Uwsgi(sluice_wire::uwsgi::Modifiers::default());
        assert_eq!(
            refused(uwsgi, &long).as_deref(),
            Some("env with a name of 65536 bytes, which is too long for the protocol")
        );
        assert_eq!(refused(Dialect::FastCgi, &long), None);
    }
}
