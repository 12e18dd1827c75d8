//! `templates`: executes responses of certain media types as templates. `crate::template_functions` provides the data and
//! functions of templates.

use std::rc::Rc;
use std::sync::Arc;

use sluice_message::{FieldId, Fields, Method};
use sluice_model::handler::Templates as Config;
use sluice_net::Body;
use sluice_net::body::SharedSlice;
use sluice_net::limits::BODY_BUFFER_BYTES;
use sluice_template::Delimiters;

use crate::body_text;
use crate::filters::encode::Silence;
use crate::template_functions::{self, Setting};
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::files;
use sluice_pipeline::files::Root;
use sluice_pipeline::handler::{Account, Filter, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_pipeline::subrequests::ServerRef;
use sluice_pipeline::values::At;

/// The default media types.
const MIME_TYPES: [&str; 3] = ["text/html", "text/plain", "text/markdown"];

struct Templates {
    root: Root,
    mime_types: Vec<String>,
    open: String,
    close: String,
    site: ServerRef,
}

/// Builds `templates`.
pub fn build(config: &Config, builder: &mut Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let (open, close) = match config.delimiters.as_slice() {
        [] => ("{{", "}}"),
        [open, close] if !open.is_empty() && !close.is_empty() => (open.as_str(), close.as_str()),
        _ => {
            let refusal = Refusal::new("`templates` needs exactly two delimiters");
            return Err(refusal.with_help("name what opens and what closes an action"));
        }
    };
    if !config.r#match.is_empty() {
        let refusal = Refusal::new("`templates` has no modules that add functions");
        return Err(refusal.with_help("remove `match`"));
    }
    let mime_types = match config.mime_types.as_slice() {
        [] => MIME_TYPES.map(str::to_owned).to_vec(),
        types => types.to_vec(),
    };
    Ok(Box::new(Handle(Arc::new(Templates {
        root: Root::build(&config.file_root)?,
        mime_types,
        open: open.to_owned(),
        close: close.to_owned(),
        site: builder.itself.clone(),
    }))))
}

struct Handle(Arc<Templates>);

impl Handler for Handle {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let fields = &mut exchange.req.fields;
        let mut asked = Vec::new();
        // A partial or compressed template cannot be executed.
        for id in [FieldId::AcceptEncoding, FieldId::Range, FieldId::IfRange] {
            asked.extend(fields.all(id).map(|value| (id, value.to_vec())));
            fields.remove(id);
        }
        exchange.context.filters.push(Arc::new(Rendering {
            templates: self.0.clone(),
            asked,
        }));
        Step::Next
    }

    fn account(&self, _x: &mut Exchange) -> Account {
        let types = self.0.mime_types.join(", ");
        Account {
            says: vec![format!(
                "executes responses of the types {types} as templates"
            )],
            assumed: None,
        }
    }
}

/// A response that may be a template.
struct Rendering {
    templates: Arc<Templates>,
    /// Request headers that are hidden from later handlers.
    asked: Vec<(FieldId, Vec<u8>)>,
}

impl Rendering {
    /// Restores the request headers.
    fn give_back(&self, exchange: &mut Exchange) {
        for (id, value) in &self.asked {
            exchange.req.fields.push(*id, value);
        }
    }

    /// Whether to execute the response as a template.
    fn includes(&self, exchange: &Exchange) -> bool {
        let fields = &exchange.res.fields;
        if exchange.res.status.is_bodiless() || is_encoded(fields) {
            return false;
        }
        let content_type = fields.first(FieldId::ContentType).unwrap_or_default();
        let contains =
            |part: &String| memchr::memmem::find(content_type, part.as_bytes()).is_some();
        self.templates.mime_types.iter().any(contains)
    }

    async fn render(&self, exchange: &mut Exchange, body: Body) -> Result<Body, Fault> {
        let source = template_functions::collect(exchange, body).await?;
        // Template functions cannot await. The body limit applies to templates as well.
        if memchr::memmem::find(&source, b"http.request.body").is_some() {
            body_text::read(exchange).await?;
        }
        let mut root = Vec::new();
        let fits = self.templates.root.write(&At(exchange), &mut root);
        fits.map_err(files::unfit)?;
        let setting = Setting {
            root,
            delimiters: Delimiters {
                open: &self.templates.open,
                close: &self.templates.close,
            },
            site: &self.templates.site,
        };
        let written = template_functions::write(exchange, &source, &setting).await?;
        exchange.res.fields = written.fields;
        forget_source(&mut exchange.res.fields);
        // Do not keep a long page in the connection's buffer for short bodies.
        if written.body.len() > BODY_BUFFER_BYTES {
            let shared = Rc::from(written.body);
            return Ok(Body::Shared(SharedSlice::new(shared)));
        }
        exchange.inline = written.body;
        Ok(Body::Inline)
    }
}

/// Removes headers that describe the template file: the page is generated for each request.
fn forget_source(fields: &mut Fields) {
    for id in [
        FieldId::ContentLength,
        FieldId::Etag,
        FieldId::LastModified,
        FieldId::AcceptRanges,
    ] {
        fields.remove(id);
    }
}

fn is_encoded(fields: &Fields) -> bool {
    fields
        .all(FieldId::ContentEncoding)
        .any(|coding| !coding.eq_ignore_ascii_case(b"identity"))
}

impl Filter for Rendering {
    fn apply(&self, exchange: &mut Exchange, body: Body) -> Body {
        self.give_back(exchange);
        if !self.includes(exchange) {
            return body;
        }
        forget_source(&mut exchange.res.fields);
        // The length is known only after executing the template, which is not done for HEAD.
        Body::Stream(Box::new(Silence))
    }

    fn give_up(&self, exchange: &mut Exchange) {
        self.give_back(exchange);
    }

    fn waits(&self, exchange: &Exchange, body: &Body) -> bool {
        let has_content = !matches!(body, Body::Tunnel(_) | Body::Abort);
        exchange.req.method != Method::Head && has_content && self.includes(exchange)
    }

    fn wait<'a>(self: Arc<Self>, exchange: &'a mut Exchange, body: Body) -> Waiting<'a> {
        Box::pin(async move {
            self.give_back(exchange);
            match self.render(exchange, body).await {
                Ok(body) => Step::Done(body),
                Err(fault) => {
                    forget_source(&mut exchange.res.fields);
                    Step::Fail(fault)
                }
            }
        })
    }
}
