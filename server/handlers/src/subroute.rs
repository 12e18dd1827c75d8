//! `subroute` and `invoke`: nested routes.

use sluice_model::handler::{Invoke, Subroute};

use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

/// Enters another list of routes.
struct Enter {
    list: usize,
}

impl Handler for Enter {
    fn serve(&self, _x: &mut Exchange) -> Step {
        Step::Enter(self.list)
    }
}

/// Builds `subroute`.
pub fn build<'m>(config: &'m Subroute, builder: &mut Builder<'m>) -> Box<dyn Handler> {
    let list = match &config.errors {
        Some(errors) => builder.add_list_with_errors(&config.routes, &errors.routes),
        None => builder.add_list(&config.routes),
    };
    Box::new(Enter { list })
}

/// Builds `invoke`.
pub fn build_invoke(
    config: &Invoke,
    builder: &mut Builder<'_>,
) -> Result<Box<dyn Handler>, Refusal> {
    let list = builder.named_route(&config.name).ok_or_else(|| {
        Refusal::new(format!("no route is named `{}`", config.name))
            .with_help("define it at the top of the file as `&(name) { … }`")
    })?;
    Ok(Box::new(Enter { list }))
}
