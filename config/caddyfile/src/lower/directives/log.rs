//! `log`, `log_skip`, `log_name` and `log_append`: the access log of a site.

use sluice_model::Handler;
use sluice_model::handler::LogAppend;

use super::Outcomes;
use super::vars::variable;
use crate::lower::Lowering;
use crate::lower::args::texts;
use crate::lower::outcome::{AccessLog, Outcome};
use crate::tree::Directive;

impl Lowering<'_> {
    pub(super) fn log(&mut self, line: &Directive) -> Outcomes {
        self.between(line, &line.args, 0, 1)?;
        let mut log = AccessLog {
            name: line
                .args
                .first()
                .map(|word| word.text.clone())
                .unwrap_or_default(),
            hostnames: Vec::new(),
            no_hostname: false,
            log: None,
        };
        let mut body = sluice_model::logging::Log::default();
        self.each(line.lines(), |this, option| {
            match option.name.text.as_str() {
                "hostnames" => log.hostnames.extend(this.texts(option)?),
                "no_hostname" => {
                    this.flag(option)?;
                    log.no_hostname = true;
                }
                "include" | "exclude" => {
                    let name = &option.name.text;
                    let title = format!("an access log has no `{name}`");
                    let diagnostic =
                        option
                            .name
                            .error("unknown-option", title, "not an option here");
                    return this.refuse(diagnostic.help("it belongs to the global option `log`"));
                }
                _ => this.log_option(option, &mut body)?,
            }
            Some(())
        })?;
        if body != sluice_model::logging::Log::default() {
            if log.name.is_empty() {
                log.name = format!("log{}", self.next_log);
                self.next_log += 1;
            }
            body.include = vec![format!("http.log.access.{}", log.name)];
            log.log = Some(body);
        }
        Some(vec![Outcome::Log(Box::new(log))])
    }

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
}
