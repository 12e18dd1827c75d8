//! Finds the application of a project: Django by its `manage.py`, others by the line that makes the application. Files are
//! read, and nothing of them is executed.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::messages::Failed;

/// Files that are looked at besides the usual ones. A project with more has its application in a usual one.
const FILES_MAX: usize = 64;

/// How much of a file is read: the line that makes the application is near its beginning.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Where applications usually are, the likeliest first.
const USUAL: [&str; 12] = [
    "main.py",
    "app.py",
    "asgi.py",
    "wsgi.py",
    "application.py",
    "api.py",
    "server.py",
    "run.py",
    "app/main.py",
    "app/__init__.py",
    "src/main.py",
    "src/app.py",
];

/// The interface of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Auto,
    Wsgi,
    Asgi,
    Esgi,
    Rsgi,
}

impl Interface {
    /// The setting of the handler that names the application.
    pub fn setting(self) -> &'static str {
        match self {
            Interface::Auto => "module",
            Interface::Wsgi => "module_wsgi",
            Interface::Asgi => "module_asgi",
            Interface::Esgi => "module_esgi",
            Interface::Rsgi => "module_rsgi",
        }
    }

    /// The interface with this name.
    pub fn named(name: &str) -> Interface {
        match name {
            "wsgi" => Interface::Wsgi,
            "asgi" => Interface::Asgi,
            "esgi" => Interface::Esgi,
            "rsgi" => Interface::Rsgi,
            _ => Interface::Auto,
        }
    }

    /// Whether applications may have lifespan events.
    pub fn has_lifespan(self) -> bool {
        matches!(self, Interface::Asgi | Interface::Auto)
    }

    fn describe(self) -> &'static str {
        match self {
            Interface::Auto => "interface detected when it starts",
            Interface::Wsgi => "WSGI",
            Interface::Asgi => "ASGI",
            Interface::Esgi => "ESGI",
            Interface::Rsgi => "RSGI",
        }
    }
}

/// An application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// `module:variable`, or `module:function()`.
    pub app: String,
    pub interface: Interface,
    /// The framework; empty if that is not known.
    framework: &'static str,
}

impl Found {
    /// One that is named on the command line.
    pub fn named(app: &str, interface: &str) -> Found {
        Found {
            app: app.to_owned(),
            interface: Interface::named(interface),
            framework: "",
        }
    }

    /// Framework and interface, for people.
    pub fn describe(&self) -> String {
        match self.framework {
            "" => self.interface.describe().to_owned(),
            framework => format!("{framework}, {}", self.interface.describe()),
        }
    }
}

/// The calls that make applications.
const FRAMEWORKS: [(&str, Interface); 9] = [
    ("Flask", Interface::Wsgi),
    ("Bottle", Interface::Wsgi),
    ("FastAPI", Interface::Asgi),
    ("Starlette", Interface::Asgi),
    ("Quart", Interface::Asgi),
    ("Litestar", Interface::Asgi),
    ("BlackSheep", Interface::Asgi),
    ("Sanic", Interface::Asgi),
    ("Robyn", Interface::Asgi),
];

/// The functions that make applications by convention.
const FACTORIES: [&str; 2] = ["create_app", "make_app"];

/// Finds the application of the project in `folder`.
pub fn find(folder: &Path) -> Result<Found, Failed> {
    if let Some(found) = django(folder) {
        return Ok(found);
    }
    let mut best: Option<Found> = None;
    for name in names(folder) {
        let Some(text) = read(&folder.join(&name)) else {
            continue;
        };
        match look(&module(&name), &text) {
            Some(found) if !found.app.ends_with("()") => return Ok(found),
            // A function is taken only if no file has an application.
            Some(found) => _ = best.get_or_insert(found),
            None => {}
        }
    }
    best.ok_or_else(|| {
        Failed::new(format!("no Python application was found in {}", folder.display()))
            .help("name one: `sluice python MODULE:APP`, such as `sluice python main:app`")
            .help(
                "looked for `manage.py` of Django, and for lines such as `app = Flask(__name__)` or `app = FastAPI()`",
            )
    })
}

/// The files to look at, the likeliest first.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = USUAL.map(str::to_owned).into();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut others: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".py") && !names.contains(name))
        .filter(|name| !name.starts_with("test") && name != "setup.py" && name != "conftest.py")
        .collect();
    others.sort();
    others.truncate(FILES_MAX);
    names.append(&mut others);
    names
}

/// The module that a file is.
fn module(name: &str) -> String {
    let name = name.trim_end_matches(".py").trim_end_matches("/__init__");
    name.replace('/', ".")
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Django's project: `manage.py` names the settings, beside which the applications are.
fn django(folder: &Path) -> Option<Found> {
    let manage = read(&folder.join("manage.py"))?;
    let (_, rest) = manage.split_once("DJANGO_SETTINGS_MODULE")?;
    let settings = rest
        .split(['"', '\''])
        .find(|part| part.contains(".settings"))?;
    let (package, _) = settings.split_once(".settings")?;
    let place = folder.join(package.replace('.', "/"));
    for (name, interface) in [("wsgi", Interface::Wsgi), ("asgi", Interface::Asgi)] {
        if place.join(format!("{name}.py")).is_file() {
            return Some(Found {
                app: format!("{package}.{name}:application"),
                interface,
                framework: "Django",
            });
        }
    }
    None
}

/// The application that the text of a module makes.
fn look(module: &str, text: &str) -> Option<Found> {
    let mut factory = None;
    let mut framework_in_use = None;
    for line in text.lines() {
        if let Some((name, made)) = assignment(line)
            && let Some((framework, interface)) = framework(made)
        {
            return Some(Found {
                app: format!("{module}:{name}"),
                interface,
                framework,
            });
        }
        if let Some((name, interface)) = bare(line) {
            return Some(Found {
                app: format!("{module}:{name}"),
                interface,
                framework: "",
            });
        }
        if let Some((_, made)) = line.split_once('=') {
            framework_in_use = framework_in_use.or(framework(made));
        }
        let is_factory = |name: &&&str| line.starts_with(&format!("def {name}("));
        factory = factory.or(FACTORIES.iter().find(is_factory));
    }
    let (framework, interface) = framework_in_use?;
    Some(Found {
        app: format!("{module}:{}()", factory?),
        interface,
        framework,
    })
}

/// `name = value` or `name: type = value` at the beginning of a line.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (target, value) = line.split_once('=')?;
    let name = target.split(':').next().unwrap_or(target).trim_end();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.chars().all(is_letter);
    is_name.then_some((name, value.trim_start()))
}

/// The framework whose class a value calls: `Flask(…)`, `flask.Flask(…)`.
fn framework(value: &str) -> Option<(&'static str, Interface)> {
    let (callee, _) = value.trim_start().split_once('(')?;
    let class = callee.rsplit('.').next().unwrap_or(callee);
    FRAMEWORKS.into_iter().find(|(name, _)| *name == class)
}

/// A function that is an application itself, by its arguments.
fn bare(line: &str) -> Option<(&str, Interface)> {
    let (is_async, rest) = match line.strip_prefix("async def ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("def ")?),
    };
    let (name, arguments) = rest.split_once('(')?;
    if name != "app" && name != "application" {
        return None;
    }
    let arguments: String = arguments.split(')').next()?.split_whitespace().collect();
    let interface = match (is_async, arguments.as_str()) {
        (false, "environ,start_response") => Interface::Wsgi,
        (true, "scope,receive,send") => Interface::Asgi,
        (false, "scope,protocol") => Interface::Esgi,
        (true, "scope,protocol" | "scope,proto") => Interface::Rsgi,
        _ => return None,
    };
    Some((name, interface))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_makes_an_application_is_found() {
        for (text, expected) in [
            (
                "from flask import Flask\napp = Flask(__name__)\n",
                Some(("m:app", Interface::Wsgi)),
            ),
            (
                "import fastapi\napi: fastapi.FastAPI = fastapi.FastAPI()\n",
                Some(("m:api", Interface::Asgi)),
            ),
            ("def f():\n    app = Flask(__name__)\n", None),
            (
                "def create_app():\n    app = Flask(__name__)\n    return app\n",
                Some(("m:create_app()", Interface::Wsgi)),
            ),
            (
                "def application(environ, start_response):\n",
                Some(("m:application", Interface::Wsgi)),
            ),
            (
                "async def app(scope, receive, send):\n",
                Some(("m:app", Interface::Asgi)),
            ),
            (
                "def application(scope, protocol):\n",
                Some(("m:application", Interface::Esgi)),
            ),
            ("x = Flasks()\n", None),
            ("if a == FastAPI():\n", None),
            ("", None),
        ] {
            let found = look("m", text);
            let found = found
                .as_ref()
                .map(|found| (found.app.as_str(), found.interface));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn modules_of_files() {
        assert_eq!(module("main.py"), "main");
        assert_eq!(module("app/__init__.py"), "app");
        assert_eq!(module("src/app.py"), "src.app");
    }

    #[test]
    fn projects_of_the_test_applications() {
        let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/apps");
        let django = find(&apps.join("django_site")).map_err(|failed| failed.text().to_owned());
        assert_eq!(
            django.map(|found| found.app),
            Ok("site_settings.wsgi:application".to_owned())
        );
    }
}
