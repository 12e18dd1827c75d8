//! `ngx_http_auth_basic_module` and `ngx_http_auth_request_module`: access control by password and by subrequest.

use sluice_diag::Diagnostic;
use sluice_model::nginx::{AskLocation, PasswordFile, SetVariable};

use super::rewrite::variable_name;
use crate::definition::Takes::Words;
use crate::definition::Verdict::Partly;
use crate::definition::Wrong;
use crate::definition::{Definition, many, once};
use crate::lower::level::Level;
use crate::lower::lowering::Lowering;
use crate::lower::text::Facts;
use crate::tree::Directive;
use crate::tree::Word as Text;

/// Those of passwords.
pub const BASIC: &[Definition] = &[
    once("auth_basic", Words(1, 1)),
    once("auth_basic_user_file", Words(1, 1)).but(Partly(
        "hashes of bcrypt, `$apr1$`, `$1$`, `$5$`, `$6$`, `{SHA}`, `{SSHA}` and \
         `{PLAIN}`; DES and yescrypt hashes never match",
    )),
];

/// Those of other locations.
pub const REQUEST: &[Definition] = &[
    once("auth_request", Words(1, 1)),
    many("auth_request_set", Words(2, 2)).checked(check_variable),
];

/// The names and passwords that are asked for in a place.
pub fn basic(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<PasswordFile> {
    let line = level.find("auth_basic")?;
    let realm = line.args.first().filter(|word| word.text != "off")?;
    let Some(file) = level.find("auth_basic_user_file") else {
        cx.report.push(
            Diagnostic::warning("no-effect", "`auth_basic` without a file of users")
                .at(line.span(), "no password is requested, as in nginx")
                .imported(line.name.import)
                .help("add `auth_basic_user_file`"),
        );
        return None;
    };
    let word = file.args.first()?;
    let path = Text {
        text: cx.path(&word.text),
        ..word.clone()
    };
    Some(PasswordFile {
        realm: cx.text(realm, facts),
        users: cx.text(&path, facts),
    })
}

/// The location that is asked in a place.
pub fn request(cx: &mut Lowering<'_>, level: &Level<'_>, facts: &Facts) -> Option<AskLocation> {
    let word = level.find("auth_request")?.args.first()?;
    if word.text == "off" {
        return None;
    }
    if !word.text.starts_with('/') {
        return cx.invalid(
            word,
            "auth_request",
            "`off` or a path that begins with a slash",
        );
    }
    let mut set = Vec::new();
    for line in level.nearest(&["auth_request_set"]) {
        let name = variable_name(cx, &line.args[0], "auth_request_set")?;
        set.push(SetVariable {
            variable: name.to_ascii_lowercase(),
            value: cx.text(&line.args[1], facts),
            origin: cx.origin(line),
        });
    }
    Some(AskLocation {
        uri: word.text.clone(),
        set,
    })
}

fn check_variable(directive: &Directive) -> Option<Wrong> {
    (!directive.arg(0)?.starts_with('$'))
        .then_some((0, "a variable such as `$name`, and its value"))
}
