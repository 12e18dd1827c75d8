//! `nginx_ssi`: processes SSI commands as pages are sent. `parse` finds the commands, `page` executes them; `words`
//! and `variables` evaluate their parameters.

mod page;
pub mod page_state;
mod parse;
pub mod variables;
mod words;

use std::sync::Arc;

use sluice_message::{FieldId, Fields, Method};
use sluice_model::nginx::Ssi as Config;
use sluice_net::Body;

use super::types::Kinds;
use super::{TreeRef, changed};
use sluice_handlers::filters::encode::{Silence, Source};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Filter, Filtering, Handler};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;

use page::Page;
use variables::Names;

/// The filter.
#[derive(Clone)]
struct Settings(Arc<Rules>);

/// The settings of one scope.
struct Rules {
    types: Kinds,
    value_bytes_max: usize,
    /// Whether errors are logged but not shown (`ssi_silent_errors`).
    silent: bool,
    keeps_last_modified: bool,
    names: Names,
    all_names: Arc<Names>,
    site: ServerRef,
    tree: TreeRef,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    Ok(Filtering::boxed(Settings(Arc::new(Rules {
        types: Kinds::build(&config.types),
        value_bytes_max: usize::try_from(config.value_length).unwrap_or(usize::MAX),
        silent: config.silent,
        keeps_last_modified: config.keeps_last_modified,
        names: Names::build(&config.variables, &Default::default())?,
        all_names: crate::shared::Shared::of(builder).names,
        site: builder.itself.clone(),
        tree: crate::shared::Shared::of(builder).tree,
    }))))
}

impl Rules {
    /// Whether a response is processed. Compressed bodies are not.
    fn is_for(&self, exchange: &Exchange) -> bool {
        !exchange.res.status.is_bodiless()
            && !exchange.res.fields.has(FieldId::ContentEncoding)
            && exchange.res.fields.has(FieldId::ContentType)
            && self.types.include(&exchange.res.fields)
    }

    /// The page has no reliable modification time of its own.
    fn change_fields(&self, fields: &mut Fields) {
        changed::note(fields);
        if !self.keeps_last_modified {
            fields.remove(FieldId::LastModified);
            fields.remove(FieldId::Etag);
        }
    }
}

impl Filter for Settings {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        if !self.0.is_for(exchange) {
            return body;
        }
        let source = match Source::of(exchange, body) {
            Ok(source) => source,
            Err(other) => return other,
        };
        self.0.change_fields(&mut exchange.res.fields);
        if exchange.req.method == Method::Head {
            // The length is only known after processing, which HEAD does not do.
            return Body::Stream(Box::new(Silence));
        }
        Body::Stream(Box::new(Page::new(exchange, self.0.clone(), source)))
    }
}
