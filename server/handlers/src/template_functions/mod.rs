//! Executes templates: provides their data and functions. `sluice-template` implements the language;
//! `handlers::templates` decides which responses are templates.

mod dates;
mod files;
mod front_matter;
mod host;
pub mod humanize;
mod markdown;
mod request;
mod subrequest;
mod yaml;
mod zones;

use std::rc::Rc;

use sluice_message::{Fields, Status};
use sluice_template::host::Outcome;
use sluice_template::{Delimiters, Error, Fault, Machine, Program, Progress, Value};

use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault as Refused;
use sluice_pipeline::subrequests::ServerRef;

use files::Files;
pub use files::mode_text;
use host::Functions;
use request::{Page, Shared};
pub use subrequest::collect;

/// Settings of a page.
pub struct Setting<'a> {
    /// The folder of its files: absolute, without a trailing slash.
    pub root: Vec<u8>,
    /// The delimiters of actions.
    pub delimiters: Delimiters<'a>,
    /// The server, for `httpInclude`.
    pub site: &'a ServerRef,
}

/// The output of a template.
pub struct Written {
    /// The page.
    pub body: Vec<u8>,
    /// The response headers as the template left them.
    pub fields: Fields,
}

/// Executes `source` as a template for the response to `exchange`. Awaits pages that it includes from the server.
pub async fn write(
    exchange: &Exchange,
    source: &[u8],
    setting: &Setting<'_>,
) -> Result<Written, Refused> {
    let mut functions = functions(exchange, setting);
    let dot = Page::dot(&functions.shared, &[]);
    let program = sluice_template::parse(source, setting.delimiters, &functions);
    let mut machine = Machine::new(&program.map_err(refused)?, dot);
    while machine.run(&mut functions).map_err(refused)? == Progress::Waiting {
        let wanted = functions.wanted.take().expect("only `httpInclude` waits");
        let body = subrequest::get(exchange, setting.site, &wanted).await?;
        let included = included(&functions, &wanted.lossy(), &body)?;
        let dot = Page::dot(&functions.shared, &[]);
        machine
            .supply(Outcome::Run(included, dot))
            .map_err(refused)?;
    }
    Ok(Written {
        body: machine.into_output(),
        fields: functions.shared.response.take(),
    })
}

/// Executes a template that is not a response of its own. `dot` creates its data from the data of a request.
pub fn write_with(
    exchange: &Exchange,
    source: &[u8],
    setting: &Setting<'_>,
    dot: impl FnOnce(Value) -> Value,
) -> Result<Vec<u8>, Refused> {
    let mut functions = functions(exchange, setting);
    let dot = dot(Page::dot(&functions.shared, &[]));
    let program = sluice_template::parse(source, setting.delimiters, &functions);
    let mut machine = Machine::new(&program.map_err(refused)?, dot);
    match machine.run(&mut functions).map_err(refused)? {
        Progress::Done => Ok(machine.into_output()),
        Progress::Waiting => Err(refused(
            Fault::failed("`httpInclude` cannot be used here").at(1),
        )),
    }
}

fn functions<'a>(exchange: &'a Exchange, setting: &Setting<'a>) -> Functions<'a> {
    Functions {
        exchange,
        shared: Rc::new(Shared::new(exchange, &setting.root)),
        files: Files {
            root: setting.root.clone(),
            now: exchange.worker.clock.coarse(),
        },
        delimiters: setting.delimiters,
        wanted: None,
    }
}

fn included(functions: &Functions<'_>, name: &str, source: &[u8]) -> Result<Rc<Program>, Refused> {
    functions
        .program(name, source)
        .map_err(|fault| refused(fault.at(1)))
}

/// The error for the client: the status requested by the template, otherwise 500. The line is for the log.
fn refused(error: Error) -> Refused {
    let status = match error.fault {
        Fault::Status(code) => Status::new(code),
        _ => None,
    };
    match status {
        Some(status) => Refused::new(status, status.reason()),
        None => Refused::new(Status::INTERNAL_SERVER_ERROR, format!("template: {error}")),
    }
}
