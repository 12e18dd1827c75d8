//! `reverse_proxy`.

mod dynamic;
pub(super) mod fastcgi;
mod health_checks;
mod load_balancing;
mod options;
mod transport;
mod upstreams;

use sluice_model::Handler;
use sluice_model::proxy::ReverseProxy;

use super::intercept::is_response_line;
use crate::lower::Lowering;
use crate::lower::definition::{Definition, directive};
use crate::lower::outcome::Outcomes;
use crate::tree::{Directive, Token};
use options::OPTIONS;

/// `reverse_proxy`.
pub(super) static REVERSE_PROXY: Definition = directive(
    "reverse_proxy",
    "reverse_proxy [<matcher>] [<upstreams...>] [{ … }]",
    |cx, line| cx.reverse_proxy(line),
)
.with(&OPTIONS);

impl Lowering<'_> {
    fn reverse_proxy(&mut self, line: &Directive) -> Outcomes {
        self.handler(line, |this, args| {
            let proxy = this.proxy_block(line, args, line.lines(), ReverseProxy::default())?;
            Some(Handler::ReverseProxy(Box::new(proxy)))
        })
    }

    /// Reads the upstreams and options of a proxy; `php_fastcgi` and `forward_auth` have them too.
    pub(in crate::lower) fn proxy_block(
        &mut self,
        line: &Directive,
        args: &[Token],
        options: &[Directive],
        mut proxy: ReverseProxy,
    ) -> Option<ReverseProxy> {
        let place = std::mem::replace(&mut self.place, &REVERSE_PROXY);
        let mut upstreams: Vec<&Token> = args.iter().collect();
        let mut whole = true;
        for option in options.iter().filter(|option| !is_response_line(option)) {
            if option.name.text == "to" {
                whole &= self.texts(option).is_some();
                upstreams.extend(&option.args);
            } else {
                whole &= self.read_option(&OPTIONS, option, &mut proxy).is_some();
            }
        }
        let upstreams = self.upstreams(line, &upstreams, &mut proxy);
        match self.response_handlers(options) {
            Some(handlers) => proxy.handle_response = handlers,
            None => whole = false,
        }
        self.place = place;
        upstreams?;
        whole.then_some(proxy)
    }
}
