//! The settings of an application before and after its placeholders are expanded.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sluice_model::handler::python::Python as Config;
use sluice_observe::process_values;
use sluice_pipeline::env_file;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::files;
use sluice_pipeline::refusal::Refusal;
use sluice_python::Settings;
use sluice_route::placeholder::Unknown;
use sluice_route::{Key, Template, Values};

use crate::limits::PYTHON_ENV_FILE_BYTES_MAX;

/// Keeps Python from writing compiled files.
const NO_BYTECODE: &str = "PYTHONDONTWRITEBYTECODE";

/// The texts of a directive that may have placeholders.
pub(super) struct Recipe {
    /// What no placeholder changes.
    base: Settings,
    module: Template,
    working_dir: Option<Template>,
    venv: Option<Template>,
    python: Option<Template>,
    env_files: Vec<Template>,
    env_vars: Vec<(String, Template)>,
    /// The folder that relative paths start from: that of the server at its start.
    start: PathBuf,
}

/// The texts after their placeholders were expanded: two requests with equal ones use the same application.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Texts {
    pub(super) module: String,
    pub(super) working_dir: Option<PathBuf>,
    venv: Option<PathBuf>,
    python: Option<PathBuf>,
    env_files: Vec<PathBuf>,
    env_vars: Vec<(String, String)>,
}

impl Recipe {
    /// Parses the texts of a directive; `base` has the rest.
    pub(super) fn build(config: &Config, module: &str, base: Settings) -> Result<Recipe, Refusal> {
        let path = |text: &str| match text {
            "" => Ok(None),
            text => template(text).map(Some),
        };
        let env_vars = config.env_vars.iter().map(|(name, value)| {
            check_name(name)?;
            Ok((name.clone(), template(value)?))
        });
        Ok(Recipe {
            base,
            module: template(module)?,
            working_dir: path(&config.working_dir)?,
            venv: path(&config.venv_path)?,
            python: path(&config.python_path)?,
            env_files: (config.env_files.iter().map(|text| template(text)))
                .collect::<Result<_, _>>()?,
            env_vars: env_vars.collect::<Result<_, Refusal>>()?,
            start: std::env::current_dir()
                .map_err(|error| Refusal::new(format!("the working folder is unknown: {error}")))?,
        })
    }

    /// Whether requests decide about the application.
    pub(super) fn is_dynamic(&self) -> bool {
        let paths = [&self.working_dir, &self.venv, &self.python];
        let paths = paths.into_iter().flatten();
        let vars = self.env_vars.iter().map(|(_, value)| value);
        let mut all = paths
            .chain(&self.env_files)
            .chain(vars)
            .chain([&self.module]);
        all.any(|text| text.keys().any(may_vary))
    }

    /// The texts for a request.
    ///
    /// # Errors
    ///
    /// A value of the request does not fit into a path, or is not the name of a module.
    pub(super) fn expand(&self, values: &dyn Values) -> Result<Texts, Fault> {
        let path = |text: &Template| {
            let mut out = Vec::new();
            text.expand_path(values, &mut out).map_err(files::unfit)?;
            Ok::<PathBuf, Fault>(self.start.join(OsStr::from_bytes(&out)))
        };
        let optional = |text: &Option<Template>| text.as_ref().map(path).transpose();
        let text = |text: &Template| {
            let mut out = Vec::new();
            text.expand(values, Unknown::Keep, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let working_dir = optional(&self.working_dir)?;
        let below = |text: &Template| {
            let mut out = Vec::new();
            text.expand_path(values, &mut out).map_err(files::unfit)?;
            let base = working_dir.as_ref().unwrap_or(&self.start);
            Ok::<PathBuf, Fault>(base.join(OsStr::from_bytes(&out)))
        };
        let module = text(&self.module);
        if !is_module(&module) {
            let status = sluice_message::Status::BAD_REQUEST;
            return Err(Fault::new(
                status,
                "the request does not name an application",
            ));
        }
        Ok(Texts {
            module,
            venv: optional(&self.venv)?,
            python: optional(&self.python)?,
            env_files: self.env_files.iter().map(below).collect::<Result<_, _>>()?,
            env_vars: (self.env_vars.iter())
                .map(|(name, value)| (name.clone(), text(value)))
                .collect(),
            working_dir,
        })
    }

    /// The settings of an application with these texts. Reads its files with variables.
    ///
    /// # Errors
    ///
    /// A file cannot be read, has a line that is not a variable, or is outside of the working folder.
    pub(super) fn settings(&self, texts: &Texts, name: &str) -> Result<Settings, Refusal> {
        let mut settings = self.base.clone();
        name.clone_into(&mut settings.name);
        (settings.module, settings.factory) = match texts.module.strip_suffix("()") {
            Some(function) => (function.to_owned(), true),
            None => (texts.module.clone(), false),
        };
        settings.working_dir.clone_from(&texts.working_dir);
        settings.venv.clone_from(&texts.venv);
        settings.python.clone_from(&texts.python);
        let base = texts.working_dir.as_ref().unwrap_or(&self.start);
        for (template, file) in self.env_files.iter().zip(&texts.env_files) {
            let is_relative = !template.source().starts_with('/');
            let variables = read_variables(file, is_relative.then_some(base))?;
            settings.env.extend(variables);
        }
        settings.env.extend(texts.env_vars.iter().cloned());
        // Compiled files are valid for all edits of the same second that leave the size as it is.
        let is_set = settings.env.iter().any(|(name, _)| name == NO_BYTECODE);
        if settings.autoreload && !is_set {
            settings.env.push((NO_BYTECODE.to_owned(), "1".to_owned()));
        }
        Ok(settings)
    }
}

/// A text whose placeholders of the process are expanded once and for all.
fn template(text: &str) -> Result<Template, Refusal> {
    if let Ok(fixed) = process_values::expand(text) {
        return Ok(Template::from_literal(&fixed));
    }
    Template::parse(text).map_err(|error| Refusal::new(error.to_string()))
}

/// Whether a placeholder differs between requests. JSON in a variable looks like one and is none.
fn may_vary(key: &Key) -> bool {
    match key {
        Key::Other(name) => {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            !name.is_empty() && name.bytes().all(is_plain)
        }
        _ => true,
    }
}

/// Whether a text is `package.module:variable` or `package.module:function()`, of Python's letters.
pub(super) fn is_module(text: &str) -> bool {
    let Some((module, variable)) = text.split_once(':') else {
        return false;
    };
    let variable = variable.strip_suffix("()").unwrap_or(variable);
    let is_name = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next();
        first.is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    };
    module.split('.').all(is_name) && variable.split('.').all(is_name)
}

/// Refuses variables that would change how programs are loaded, as Caddy Snake does.
fn check_name(name: &str) -> Result<(), Refusal> {
    let loads = ["LD_", "DYLD_", "CADDYSNAKE_"];
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Refusal::new(format!(
            "`{name}` is not the name of a variable"
        )));
    }
    if loads.iter().any(|start| name.starts_with(start)) || name == "PYTHONUNBUFFERED" {
        let message = format!("the variable `{name}` cannot be set for an application");
        return Err(Refusal::new(message).with_help("remove it"));
    }
    Ok(())
}

/// The variables in a file; one with a relative path may not be outside of `base`, where links lead or not.
fn read_variables(file: &Path, base: Option<&PathBuf>) -> Result<Vec<(String, String)>, Refusal> {
    let refuse = |error: String| {
        let message = format!("cannot read env_file `{}`: {error}", file.display());
        Refusal::new(message)
    };
    if let Some(base) = base {
        let resolve = |path: &Path| {
            path.canonicalize()
                .map_err(|error| refuse(error.to_string()))
        };
        if !resolve(file)?.starts_with(resolve(base)?) {
            let message = format!("env_file `{}` is outside of `working_dir`", file.display());
            return Err(Refusal::new(message).with_help("write its whole path if that is meant"));
        }
    }
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| refuse(error.to_string()))?;
    let read = opened
        .take(PYTHON_ENV_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text);
    read.map_err(|error| refuse(error.to_string()))?;
    if text.len() as u64 > PYTHON_ENV_FILE_BYTES_MAX {
        return Err(refuse("it is too large".to_owned()));
    }
    let variables = env_file::parse(&text)
        .map_err(|error| Refusal::new(format!("env_file `{}`, line {error}", file.display())))?;
    for (name, _) in &variables {
        check_name(name)?;
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_python::Interface;
    use sluice_route::placeholder::NoValues;

    fn recipe(config: &Config) -> Result<Recipe, Refusal> {
        let base = Settings::new("", Interface::Wsgi, "");
        Recipe::build(config, &config.module_wsgi, base)
    }

    fn config(module: &str) -> Config {
        Config {
            module_wsgi: module.to_owned(),
            ..Config::default()
        }
    }

    #[test]
    fn names_of_applications() {
        for (text, expected) in [
            ("app:app", true),
            ("package.module:factory.app", true),
            ("app:create_app()", true),
            ("größe:app", true),
            ("app", false),
            (":app", false),
            ("app:", false),
            ("../app:app", false),
            ("a..b:app", false),
            ("app:app; import os", false),
            ("1app:app", false),
        ] {
            assert_eq!(is_module(text), expected, "{text}");
        }
    }

    #[test]
    fn what_requests_decide_is_dynamic_and_what_the_process_knows_is_not() {
        let mut config = config("app:app");
        config
            .env_vars
            .insert("HOME_OF".to_owned(), "{env.HOME}".to_owned());
        config
            .env_vars
            .insert("JSON".to_owned(), r#"{"a": 1}"#.to_owned());
        let fixed = recipe(&config).unwrap();
        assert!(!fixed.is_dynamic());
        let texts = fixed.expand(&NoValues).unwrap();
        let settings = fixed.settings(&texts, "app").unwrap();
        let json = settings
            .env
            .iter()
            .find(|(name, _)| name == "JSON")
            .unwrap();
        assert_eq!(json.1, r#"{"a": 1}"#);
        config.working_dir = "/srv/{http.request.host.labels.2}".to_owned();
        assert!(recipe(&config).unwrap().is_dynamic());
    }

    #[test]
    fn factories_and_relative_paths() {
        let mut config = config("app:create_app()");
        config.venv_path = "./venv".to_owned();
        let recipe = recipe(&config).unwrap();
        let texts = recipe.expand(&NoValues).unwrap();
        let settings = recipe.settings(&texts, "app").unwrap();
        assert!(settings.factory);
        assert_eq!(settings.module, "app:create_app");
        let venv = settings.venv.unwrap();
        assert!(venv.is_absolute() && venv.ends_with("venv"));
    }

    #[test]
    fn variables_that_change_how_programs_are_loaded_are_refused() {
        for name in [
            "LD_PRELOAD",
            "DYLD_X",
            "CADDYSNAKE_X",
            "PYTHONUNBUFFERED",
            "",
            "A=B",
        ] {
            let mut config = config("app:app");
            config.env_vars.insert(name.to_owned(), "x".to_owned());
            assert!(recipe(&config).is_err(), "{name}");
        }
    }
}
