//! `log`: an access log for a site.

use super::Outcomes;
use crate::lower::Lowering;
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
}
