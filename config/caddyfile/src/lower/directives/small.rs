//! Small directives: `log_skip`, `log_name`, `log_append`, `metrics`, `tracing`, `templates`, `push`, `request_body`.

use sluice_model::Handler;
use sluice_model::handler::{
    HeaderOps, LogAppend, MetricsHandler, Push, PushResource, RequestBody, Templates, Tracing,
};

use super::Outcomes;
use super::rewriting::variable;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn log_skip(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.exact::<0>(line, args)?;
            Some(variable("log_skip", true.into()))
        })
    }

    pub(super) fn log_name(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            this.between(line, args, 1, usize::MAX)?;
            Some(variable("access_logger_names", texts(args).into()))
        })
    }

    pub(super) fn log_append(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.no_block(line)?;
            let [key, value] = this.exact::<2>(line, args)?;
            let (early, key) = match key.text.strip_prefix('<') {
                Some(name) if !name.is_empty() => (true, name),
                _ => (false, key.text.as_str()),
            };
            let (key, value) = (key.to_string(), value.text.clone());
            Some(Handler::LogAppend(LogAppend { key, value, early }))
        })
    }

    pub(super) fn metrics(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut metrics = MetricsHandler::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "disable_openmetrics" => {
                        this.flag(option)?;
                        metrics.disable_openmetrics = true;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Metrics(metrics))
        })
    }

    pub(super) fn tracing(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut tracing = Tracing::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "span" => tracing.span = this.single_text(option)?,
                    "span_attributes" => {
                        this.between(option, &option.args, 0, 0)?;
                        this.each(option.lines(), |this, attribute| {
                            let value = this.single_text(attribute)?;
                            tracing
                                .span_attributes
                                .insert(attribute.name.text.clone(), value);
                            Some(())
                        })?;
                    }
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Tracing(tracing))
        })
    }

    pub(super) fn templates(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut templates = Templates::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "mime" => templates.mime_types = this.texts(option)?,
                    "root" => templates.file_root = this.single_text(option)?,
                    "between" => {
                        this.no_block(option)?;
                        templates.delimiters = texts(this.exact::<2>(option, &option.args)?);
                    }
                    // As in Caddy, a block that names no module is none.
                    "extensions" if option.args.is_empty() && option.lines().is_empty() => {}
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::Templates(templates))
        })
    }

    pub(super) fn push(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.between(line, args, 0, 1)?;
            let resource = |method: &str, target: &str| PushResource {
                method: method.to_string(),
                target: target.to_string(),
            };
            let mut push = Push::default();
            push.resources
                .extend(args.iter().map(|word| resource("", &word.text)));
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "headers" => {
                        this.between(option, &option.args, 0, 0)?;
                        let ops = push.headers.get_or_insert_with(HeaderOps::default);
                        this.each(option.lines(), |this, change| {
                            this.request_change(change, &change.name, &change.args, ops)?;
                            Some(())
                        })?;
                    }
                    method @ ("GET" | "HEAD") => {
                        let target = this.single_text(option)?;
                        push.resources.push(resource(method, &target));
                    }
                    target => {
                        this.flag(option)?;
                        push.resources.push(resource("", target));
                    }
                }
                Some(())
            })?;
            Some(Handler::Push(push))
        })
    }

    pub(super) fn request_body(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            this.exact::<0>(line, args)?;
            let mut body = RequestBody::default();
            this.each(line.lines(), |this, option| {
                match option.name.text.as_str() {
                    "max_size" => body.max_size = this.single_size(option)?,
                    "read_timeout" => body.read_timeout = this.single_duration(option)?,
                    "write_timeout" => body.write_timeout = this.single_duration(option)?,
                    "set" => body.set = this.single_text(option)?,
                    _ => return this.unknown_option(option),
                }
                Some(())
            })?;
            Some(Handler::RequestBody(body))
        })
    }
}
