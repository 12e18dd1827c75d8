//! `encode`: negotiates the content coding of responses. `filters::encode` compresses them.

use std::sync::Arc;

use sluice_message::{FieldId, negotiate};
use sluice_model::handler::Encode as Config;

use crate::filters::encode::{Coding, Eligible, EncodeFilter, forbids_transform};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::handler::{Handler, Step};
use sluice_pipeline::refusal::Refusal;

/// Compresses the responses of later handlers.
struct Encode {
    /// One filter for each content coding, in order of preference.
    filters: Vec<Arc<EncodeFilter>>,
}

/// Builds `encode`.
pub fn build(config: &Config, _cx: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let encodings = &config.encodings;
    let mut codings = Vec::new();
    if let Some(zstd) = &encodings.zstd {
        codings.push(Coding::zstd(&zstd.level, zstd.checksum == Some(true))?);
    }
    if let Some(br) = &encodings.br {
        codings.push(Coding::brotli(br.level)?);
    }
    if let Some(gzip) = &encodings.gzip {
        codings.push(Coding::gzip(gzip.level)?);
    }
    if codings.is_empty() {
        return Err(Refusal::new("`encode` has no encoding").with_help("add gzip, zstd or br"));
    }
    if let Some(unknown) = config
        .prefer
        .iter()
        .find(|name| codings.iter().all(|coding| coding.name() != *name))
    {
        let message = format!("`encode` prefers `{unknown}`, which is not enabled");
        return Err(Refusal::new(message).with_help("the encodings are gzip, zstd and br"));
    }
    let place = |coding: &Coding| config.prefer.iter().position(|name| name == coding.name());
    codings.sort_by_key(|coding| place(coding).unwrap_or(config.prefer.len()));
    let eligible = Arc::new(Eligible::build(
        config.minimum_length,
        config.r#match.as_ref(),
    )?);
    let filter = |coding| Arc::new(EncodeFilter::new(coding, eligible.clone()));
    Ok(Box::new(Encode {
        filters: codings.into_iter().map(filter).collect(),
    }))
}

impl Handler for Encode {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let fields = &exchange.req.fields;
        let names = self
            .filters
            .iter()
            .map(|filter| filter.coding().name().as_bytes());
        let Some(chosen) = negotiate::choose_coding(fields, names) else {
            return Step::Next;
        };
        // Bytes after an upgrade are not a body, and the client may forbid transforming it.
        let excluded = fields.has(FieldId::SecWebsocketKey) || forbids_transform(fields);
        if !excluded {
            let filter = &self.filters[chosen];
            filter.restore_tags(exchange);
            exchange.context.filters.push(filter.clone());
        }
        Step::Next
    }
}
