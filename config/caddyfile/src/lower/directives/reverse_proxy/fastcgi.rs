//! The transports `fastcgi`, `scgi` and `uwsgi` of `reverse_proxy`; the latter two are sluice's own.

use sluice_model::proxy::{CgiTransport, FastCgiTransport, Transport};

use crate::lower::Lowering;
use crate::tree::Directive;

impl Lowering<'_> {
    /// The words of `transport fastcgi`, but for those of its own records, and the modifiers of uwsgi.
    pub(super) fn cgi_transport(&mut self, line: &Directive) -> Option<CgiTransport> {
        let mut shared = FastCgiTransport::default();
        let (mut modifier1, mut modifier2) = (0, 0);
        self.each(line.lines(), |this, option| {
            const MODIFIER: &str = "a number from 0 to 255";
            let is_uwsgi = this.place == "transport uwsgi";
            match option.name.text.as_str() {
                "modifier1" if is_uwsgi => modifier1 = this.single_number(option, MODIFIER)?,
                "modifier2" if is_uwsgi => modifier2 = this.single_number(option, MODIFIER)?,
                "capture_stderr" => return this.unknown_option(option),
                _ if this.fastcgi_option(option, &mut shared)? => {}
                _ => return this.unknown_option(option),
            }
            Some(())
        })?;
        Some(CgiTransport {
            root: shared.root,
            split_path: shared.split_path,
            resolve_root_symlink: shared.resolve_root_symlink,
            env: shared.env,
            dial_timeout: shared.dial_timeout,
            read_timeout: shared.read_timeout,
            write_timeout: shared.write_timeout,
            modifier1,
            modifier2,
            ..CgiTransport::default()
        })
    }

    pub(super) fn fastcgi_transport(&mut self, line: &Directive) -> Option<Transport> {
        let mut transport = FastCgiTransport::default();
        self.each(line.lines(), |this, option| {
            if !this.fastcgi_option(option, &mut transport)? {
                return this.unknown_option(option);
            }
            Some(())
        })?;
        Some(Transport::FastCgi(Box::new(transport)))
    }

    /// Reads a line if it is an option of FastCGI.
    pub(in crate::lower) fn fastcgi_option(
        &mut self,
        line: &Directive,
        transport: &mut FastCgiTransport,
    ) -> Option<bool> {
        match line.name.text.as_str() {
            "root" => transport.root = self.single_text(line)?,
            "split" => transport.split_path = self.texts(line)?,
            "env" => {
                self.no_block(line)?;
                let [key, value] = self.exact::<2>(line, &line.args)?;
                transport.env.insert(key.text.clone(), value.text.clone());
            }
            "resolve_root_symlink" => {
                self.flag(line)?;
                transport.resolve_root_symlink = true;
            }
            "capture_stderr" => {
                self.flag(line)?;
                transport.capture_stderr = true;
            }
            "dial_timeout" => transport.dial_timeout = self.single_duration(line)?,
            "read_timeout" => transport.read_timeout = self.single_duration(line)?,
            "write_timeout" => transport.write_timeout = self.single_duration(line)?,
            _ => return Some(false),
        }
        Some(true)
    }
}
