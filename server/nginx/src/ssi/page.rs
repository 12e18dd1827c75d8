//! Processing of one page: commands are executed as they are read. Includes are requested at once, several
//! concurrently, and their responses are inserted in order.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::{FieldId, Method};
use sluice_net::body::SharedSlice;
use sluice_net::{Body, BodyStream, Failure};

use super::Rules;
use super::page_state::Shared;
use super::parse::{Command, Next, Parser};
use super::variables::Seen;
use super::words::{Encoding, Known, expanded, holds, lower};
use crate::charset;
use crate::limits::{
    SSI_AHEAD_BYTES_MAX, SSI_AHEAD_MAX, SSI_DEPTH_MAX, SSI_KEPT_BYTES_MAX, SSI_SET_BYTES_MAX,
    SSI_TURN_BYTES,
};
use crate::state::NginxContext;
use crate::state::{Purpose, State};
use crate::{subrequest, uri};
use sluice_handlers::filters::encode::Source;
use sluice_observe::log::Severity;
use sluice_pipeline::context::Exchange;

/// The default `errmsg`.
const MISTAKE: &[u8] = b"[an error occurred while processing the directive]";

/// The default `timefmt`.
const TIME_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

/// The suffix of error messages in the log, as in nginx.
const WHILE: &str = "while sending response to client";

/// A page that is being processed.
pub struct Page {
    rules: Arc<Rules>,
    source: Source,
    parser: Parser,
    /// The request for the page, from which includes and variables are derived.
    request: Box<Exchange>,
    shared: Arc<Shared>,
    out: VecDeque<Part>,
    flow: Flow,
    reading: Reading,
    errmsg: Vec<u8>,
    time_format: Vec<u8>,
    /// Persists from one `echo` to the next, as in nginx.
    encoding: Encoding,
    /// Whether the first part has returned bytes that have not been consumed. Otherwise nested pages would poll
    /// twice per level: a million times at a depth of twenty.
    is_shown: bool,
}

/// The state of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Read and execute commands.
    On,
    /// Send all pending output first: the following input may use variables that it sets.
    AfterOutput,
    Ended,
}

/// The state of `if` … `endif` and `block` … `endblock`. Neither can be nested.
#[derive(Debug, Default)]
struct Flow {
    branch: Branch,
    /// Whether one of the branches was chosen.
    has_chosen: bool,
    /// Whether the current branch is skipped.
    is_off: bool,
    /// The name of the open block and its text so far.
    block: Option<(Vec<u8>, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Branch {
    #[default]
    None,
    If,
    Else,
}

/// A part of the output.
enum Part {
    Bytes(Vec<u8>, usize),
    /// An include in flight.
    Asked(Asked, Wanted),
    /// The response of an include; the stub replaces one that turns out to be empty.
    Included(Source, Option<Stub>),
    /// The response of an include, collected into a variable.
    Kept(Source, String, Vec<u8>),
}

/// The text that replaces a failed or empty include, and the request to process it with.
struct Stub(Arc<[u8]>, Box<Exchange>);

/// What to do with the response of an include.
#[derive(Clone, Debug, Default)]
struct Wanted {
    stub: Option<Arc<[u8]>>,
    /// The variable to store it in.
    set: Option<String>,
}

type Asked = Pin<Box<dyn Future<Output = (Box<Exchange>, Body)>>>;

impl Page {
    /// Processes the response to `exchange`.
    pub fn new(exchange: &mut Exchange, rules: Arc<Rules>, source: Source) -> Page {
        let shared = match &exchange.context.occasional().ssi {
            Some(shared) => shared.clone(),
            None => Arc::default(),
        };
        let path = exchange.req.uri.path().to_vec();
        let mut request = subrequest::apart(exchange, &path, None);
        *request.context.nginx_mut() = State {
            place: exchange.context.nginx().place,
            purpose: Purpose::Subrequest {
                depth: exchange.context.nginx().purpose.depth(),
            },
            ..*request.context.nginx()
        };
        request.res.status = exchange.res.status;
        request.res.fields.clone_from(&exchange.res.fields);
        request.context.occasional_mut().ssi = Some(shared.clone());
        let media_type = exchange
            .res
            .fields
            .first(FieldId::ContentType)
            .unwrap_or_default();
        let charset = charset::named_in(media_type).unwrap_or_default();
        if !charset.is_empty() && !exchange.context.nginx().is_subrequest() {
            request.context.occasional_mut().charset_of_page = charset.to_vec();
        }
        Page::of(Box::new(request), rules, shared, source)
    }

    fn of(request: Box<Exchange>, rules: Arc<Rules>, shared: Arc<Shared>, source: Source) -> Page {
        Page {
            parser: Parser::new(rules.value_bytes_max),
            rules,
            source,
            request,
            shared,
            out: VecDeque::new(),
            flow: Flow::default(),
            reading: Reading::On,
            errmsg: MISTAKE.to_vec(),
            time_format: TIME_FORMAT.to_vec(),
            encoding: Encoding::default(),
            is_shown: false,
        }
    }

    /// Reads while the output has room; false if the source is pending.
    fn read_on(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut read = 0;
        while self.reading == Reading::On && self.has_room() {
            if read > SSI_TURN_BYTES {
                // Yield, as the input has produced no output for long.
                cx.waker().wake_by_ref();
                return Ok(false);
            }
            let next = self.parser.next(false);
            if next != Next::Nothing {
                self.take(next);
                continue;
            }
            let count = match self.source.poll_piece(cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(piece) => {
                    let piece = piece?;
                    self.parser.read(piece);
                    piece.len()
                }
            };
            self.source.take(count);
            read += count;
            if count == 0 {
                let next = self.parser.next(true);
                self.take(next);
                // The rest is the beginning of an unterminated command.
                self.reading = Reading::Ended;
            }
        }
        Ok(true)
    }

    fn has_room(&self) -> bool {
        let bytes = self.out.iter().map(|part| match part {
            Part::Bytes(bytes, sent) => bytes.len() - sent,
            Part::Asked(..) | Part::Included(..) | Part::Kept(..) => 0,
        });
        self.out.len() < SSI_AHEAD_MAX && bytes.sum::<usize>() < SSI_AHEAD_BYTES_MAX
    }

    fn take(&mut self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Text(range) => {
                let text = self.parser.bytes(range);
                if let Some((_, block)) = &mut self.flow.block {
                    keep(block, text);
                } else if !self.flow.is_off {
                    say(&mut self.out, text);
                }
            }
            Next::Command(command, range) => {
                if let Some((_, block)) = &mut self.flow.block
                    && command.name != "endblock"
                {
                    keep(block, self.parser.bytes(range));
                } else if let Err(why) = self.run(&command) {
                    self.mistake(&why);
                }
            }
            Next::Broken(why) => {
                if !self.flow.is_off {
                    self.mistake(&why);
                }
            }
        }
    }

    /// Shows and logs an error.
    fn mistake(&mut self, why: &str) {
        let why = format!("{why} {WHILE}");
        self.rules
            .tree
            .log_error(&self.request, Severity::Error, &why, "");
        if !self.rules.silent {
            say(&mut self.out, &self.errmsg);
        }
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            shared: &self.shared,
            page: &self.request,
            names: [&self.rules.names, &self.rules.all_names],
            time_format: &self.time_format,
        }
    }

    /// Executes a command; the error describes what is wrong with it.
    fn run(&mut self, command: &Command) -> Result<(), String> {
        let name = command.name.as_str();
        let is_branch = matches!(name, "elif" | "else" | "endif");
        if self.flow.is_off && !is_branch {
            return Ok(());
        }
        let fits = match name {
            "elif" | "else" => self.flow.branch == Branch::If,
            "endif" => self.flow.branch != Branch::None,
            _ => true,
        };
        if !fits {
            return Err(format!("invalid context of SSI command: \"{name}\""));
        }
        check(command)?;
        match name {
            "if" | "elif" => self.condition(command),
            "else" => {
                self.flow.is_off = self.flow.has_chosen;
                self.flow.branch = Branch::Else;
                Ok(())
            }
            "endif" => {
                (self.flow.is_off, self.flow.has_chosen) = (false, false);
                self.flow.branch = Branch::None;
                Ok(())
            }
            "block" => {
                let name = command.value("name").unwrap_or_default();
                self.flow.block = Some((name.to_vec(), Vec::new()));
                Ok(())
            }
            "endblock" => match self.flow.block.take() {
                Some((name, text)) => self.shared.keep_block(name, text),
                None => Ok(()),
            },
            "config" => {
                if let Some(text) = command.value("errmsg") {
                    self.errmsg = text.to_vec();
                }
                if let Some(format) = command.value("timefmt") {
                    self.time_format = format.to_vec();
                }
                Ok(())
            }
            "set" => {
                let name = lower(command.value("var").unwrap_or_default());
                let value = expanded(command.value("value").unwrap_or_default(), &self.seen())?;
                self.shared.set(name, value)
            }
            "echo" => self.echo(command),
            _ => self.include(command),
        }
    }

    fn condition(&mut self, command: &Command) -> Result<(), String> {
        if command.name == "if" && self.flow.branch != Branch::None {
            return Err("the \"if\" command inside the \"if\" command".to_owned());
        }
        let is_taken = match command.name == "elif" && self.flow.has_chosen {
            true => false,
            false => {
                let text = command.value("expr").unwrap_or_default();
                let (is_taken, groups) = holds(text, &self.seen())?;
                if let Some(groups) = groups {
                    self.shared.remember(groups)?;
                }
                is_taken
            }
        };
        self.flow.branch = Branch::If;
        self.flow.is_off = !is_taken;
        self.flow.has_chosen |= is_taken;
        Ok(())
    }

    fn echo(&mut self, command: &Command) -> Result<(), String> {
        if let Some(name) = command.value("encoding") {
            match Encoding::named(name) {
                Some(encoding) => self.encoding = encoding,
                None => {
                    let name = String::from_utf8_lossy(name);
                    let why =
                        format!("unknown encoding \"{name}\" in the \"echo\" command {WHILE}");
                    self.rules
                        .tree
                        .log_error(&self.request, Severity::Error, &why, "");
                }
            }
        }
        let name = lower(command.value("var").unwrap_or_default());
        let mut value = Vec::new();
        if !self.seen().push(&name, &mut value) {
            say(&mut self.out, command.value("default").unwrap_or(b"(none)"));
            return Ok(());
        }
        let mut written = Vec::with_capacity(value.len());
        self.encoding.push(&value, &mut written);
        say(&mut self.out, &written);
        Ok(())
    }

    fn include(&mut self, command: &Command) -> Result<(), String> {
        let (virtual_, file) = (command.value("virtual"), command.value("file"));
        let (text, is_file) = match (virtual_, file) {
            (Some(_), Some(_)) => {
                return Err("inclusion may be either virtual=\"..\" or file=\"..\"".to_owned());
            }
            (None, None) => return Err("no parameter in \"include\" SSI command".to_owned()),
            (Some(text), None) => (text, false),
            (None, Some(text)) => (text, true),
        };
        if command.value("set").is_some() && command.value("wait").is_some() {
            return Err(
                "\"set\" and \"wait\" cannot be used together in \"include\" SSI command"
                    .to_owned(),
            );
        }
        let waits = match command.value("wait") {
            None | Some(b"no") => false,
            Some(b"yes") => true,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                return Err(format!(
                    "invalid value \"{other}\" in the \"wait\" parameter"
                ));
            }
        };
        let stub = match command.value("stub") {
            None => None,
            Some(name) => Some(self.shared.block(name).ok_or_else(|| {
                let name = String::from_utf8_lossy(name);
                format!("\"stub\"=\"{name}\" for \"include\" not found")
            })?),
        };
        let text = expanded(text, &self.seen())?;
        let asked = self.ask(&text, is_file)?;
        let set = command.value("set").map(lower);
        if waits || set.is_some() {
            self.reading = Reading::AfterOutput;
        }
        self.out.push_back(Part::Asked(asked, Wanted { stub, set }));
        Ok(())
    }

    /// Requests an include; relative paths start from the directory of the page.
    fn ask(&self, text: &[u8], is_file: bool) -> Result<Asked, String> {
        let refuse = || {
            let text = String::from_utf8_lossy(text);
            format!("unsafe URI \"{text}\" was detected")
        };
        let (path, query) = match memchr::memchr(b'?', text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let mut target = Vec::new();
        if is_file || !path.starts_with(b"/") {
            let own = self.request.req.uri.path();
            let folder = memchr::memrchr(b'/', own).map_or(0, |at| at + 1);
            target.extend_from_slice(&own[..folder]);
        }
        sluice_message::uri::decode_percent(path, &mut target);
        if target.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return Err(refuse());
        }
        let mut clean = Vec::with_capacity(target.len());
        uri::clean(&target, true, &mut clean).map_err(|_| refuse())?;
        let depth = self.request.context.nginx().purpose.depth() + 1;
        if depth > SSI_DEPTH_MAX || !self.shared.count_include() {
            let path = String::from_utf8_lossy(&clean);
            return Err(format!("subrequests cycle while processing \"{path}\""));
        }
        let site = self.rules.site.get().ok_or("the server is ending")?;
        let mut sub = Box::new(subrequest::apart(&self.request, &clean, None));
        sub.req.uri.set_query(query);
        sub.req.method = Method::Get;
        sub.context.nginx_mut().purpose = Purpose::Subrequest { depth };
        Ok(Box::pin(async move {
            let body = site.fetch(&mut sub).await;
            (sub, body)
        }))
    }

    /// Polls the includes in flight.
    fn poll_asked(&mut self, cx: &mut Context<'_>) {
        for part in &mut self.out {
            let Part::Asked(asked, wanted) = part else {
                continue;
            };
            if let Poll::Ready((sub, body)) = asked.as_mut().poll(cx) {
                let wanted = std::mem::take(wanted);
                *part = responded(&self.rules, &self.shared, sub, body, wanted);
            }
        }
    }

    /// Whether the first part has bytes to send; finished parts are dropped.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<First, Failure>> {
        let Some(part) = self.out.front_mut() else {
            return Poll::Ready(Ok(First::Nothing));
        };
        match part {
            Part::Bytes(bytes, sent) if *sent < bytes.len() => Poll::Ready(Ok(First::Shows)),
            Part::Bytes(..) => Poll::Ready(Ok(First::Ended)),
            Part::Asked(..) => Poll::Pending,
            Part::Included(source, stub) => {
                let count = match source.poll_piece(cx) {
                    Poll::Pending => return Poll::Pending,
                    // A failed include ends where it broke off, as in nginx.
                    Poll::Ready(piece) => piece.map_or(0, <[u8]>::len),
                };
                let stub = stub.take();
                match stub {
                    _ if count > 0 => Poll::Ready(Ok(First::Shows)),
                    None => Poll::Ready(Ok(First::Ended)),
                    Some(Stub(text, sub)) => {
                        *part = stubbed(&self.rules, &self.shared, text, sub);
                        Poll::Ready(Ok(First::Changed))
                    }
                }
            }
            Part::Kept(source, name, kept) => {
                let count = match source.poll_piece(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(piece) => {
                        let piece = piece.unwrap_or_default();
                        kept.extend_from_slice(piece);
                        piece.len()
                    }
                };
                source.take(count);
                if count > 0 && kept.len() <= SSI_SET_BYTES_MAX {
                    return Poll::Ready(Ok(First::Changed));
                }
                let (name, kept) = (std::mem::take(name), std::mem::take(kept));
                let set = match count > 0 {
                    true => Err(format!(
                        "the response is too long for the variable \"{name}\""
                    )),
                    false => self.shared.set(name, kept),
                };
                if let Err(why) = set {
                    let why = format!("{why} {WHILE}");
                    self.rules
                        .tree
                        .log_error(&self.request, Severity::Error, &why, "");
                }
                Poll::Ready(Ok(First::Ended))
            }
        }
    }
}

/// The state of the first output part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// There is no part.
    Nothing,
    /// It has bytes to send.
    Shows,
    /// It was replaced and has to be polled again.
    Changed,
    Ended,
}

/// Appends text to a block. A block that has exceeded the limit is rejected when it ends.
fn keep(block: &mut Vec<u8>, text: &[u8]) {
    if block.len() <= SSI_KEPT_BYTES_MAX {
        block.extend_from_slice(text);
    }
}

/// Appends bytes to the output.
fn say(out: &mut VecDeque<Part>, text: &[u8]) {
    match out.back_mut() {
        _ if text.is_empty() => {}
        Some(Part::Bytes(bytes, _)) => bytes.extend_from_slice(text),
        _ => out.push_back(Part::Bytes(text.to_vec(), 0)),
    }
}

/// Turns the response of an include into an output part.
fn responded(
    rules: &Arc<Rules>,
    shared: &Arc<Shared>,
    mut sub: Box<Exchange>,
    body: Body,
    wanted: Wanted,
) -> Part {
    let is_good = sub.res.status.code() < 300;
    let source = Source::of(&mut sub, body).ok();
    match (wanted.set, wanted.stub, source) {
        (Some(name), _, Some(source)) if is_good => Part::Kept(source, name, Vec::new()),
        (Some(name), _, _) => {
            let nothing = Source::of(&mut sub, Body::Shared(SharedSlice::new(Rc::from([]))));
            match nothing {
                Ok(source) => Part::Kept(source, name, Vec::new()),
                Err(_) => Part::Bytes(Vec::new(), 0),
            }
        }
        (None, Some(text), Some(source)) if is_good => {
            Part::Included(source, Some(Stub(text, sub)))
        }
        (None, Some(text), _) => stubbed(rules, shared, text, sub),
        (None, None, Some(source)) => Part::Included(source, None),
        (None, None, None) => Part::Bytes(Vec::new(), 0),
    }
}

/// A stub block in place of an include. It may contain commands, which run in the request of the include.
fn stubbed(
    rules: &Arc<Rules>,
    shared: &Arc<Shared>,
    text: Arc<[u8]>,
    mut sub: Box<Exchange>,
) -> Part {
    let bytes = Body::Shared(SharedSlice::new(Rc::from(&text[..])));
    let Ok(source) = Source::of(&mut sub, bytes) else {
        return Part::Bytes(Vec::new(), 0);
    };
    let path = sub.req.uri.path().to_vec();
    let mut request = Box::new(subrequest::apart(&sub, &path, None));
    *request.context.nginx_mut() = State {
        place: sub.context.nginx().place,
        purpose: Purpose::Subrequest {
            depth: sub.context.nginx().purpose.depth(),
        },
        ..*request.context.nginx()
    };
    let page = Page::of(request, rules.clone(), shared.clone(), source);
    match Source::of(&mut sub, Body::Stream(Box::new(page))) {
        Ok(source) => Part::Included(source, None),
        Err(_) => Part::Bytes(Vec::new(), 0),
    }
}

/// Checks the parameters of a command.
fn check(command: &Command) -> Result<(), String> {
    let name = command.name.as_str();
    let (takes, needs): (&[&str], &[&str]) = match name {
        "block" => (&["name"], &["name"]),
        "config" => (&["errmsg", "timefmt"], &[]),
        "echo" => (&["var", "default", "encoding"], &["var"]),
        "if" | "elif" => (&["expr"], &["expr"]),
        "else" | "endif" | "endblock" => (&[], &[]),
        "include" => (&["virtual", "file", "wait", "set", "stub"], &[]),
        "set" => (&["var", "value"], &["var", "value"]),
        _ => return Err(format!("invalid SSI command: \"{name}\"")),
    };
    for (index, (parameter, _)) in command.parameters.iter().enumerate() {
        if !takes.contains(&parameter.as_str()) {
            return Err(format!(
                "invalid parameter name: \"{parameter}\" in \"{name}\" SSI command"
            ));
        }
        if command.parameters[..index]
            .iter()
            .any(|(known, _)| known == parameter)
        {
            return Err(format!(
                "duplicate \"{parameter}\" parameter in \"{name}\" SSI command"
            ));
        }
    }
    for parameter in needs {
        if command.value(parameter).is_none() {
            return Err(format!(
                "mandatory \"{parameter}\" parameter is absent in \"{name}\" SSI command"
            ));
        }
    }
    Ok(())
}

impl BodyStream for Page {
    fn len(&self) -> Option<u64> {
        None
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        while !self.is_shown {
            let is_fed = self.read_on(cx)?;
            self.poll_asked(cx);
            match self.poll_first(cx)? {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(First::Shows) => self.is_shown = true,
                Poll::Ready(First::Changed) => {}
                Poll::Ready(First::Ended) => {
                    self.out.pop_front();
                }
                Poll::Ready(First::Nothing) if self.reading == Reading::AfterOutput => {
                    self.reading = Reading::On;
                }
                Poll::Ready(First::Nothing) if self.reading == Reading::Ended => {
                    return Poll::Ready(Ok(&[]));
                }
                Poll::Ready(First::Nothing) if !is_fed => return Poll::Pending,
                Poll::Ready(First::Nothing) => {}
            }
        }
        match self.out.front_mut() {
            Some(Part::Bytes(bytes, sent)) => Poll::Ready(Ok(&bytes[*sent..])),
            // The previous call returned a piece, so this returns the same one.
            Some(Part::Included(source, _)) => source.poll_piece(cx),
            Some(Part::Asked(..) | Part::Kept(..)) | None => Poll::Ready(Ok(&[])),
        }
    }

    fn consume(&mut self, count: usize) {
        self.is_shown = false;
        match self.out.front_mut() {
            Some(Part::Bytes(_, sent)) => *sent += count,
            Some(Part::Included(source, _)) => source.take(count),
            Some(Part::Asked(..) | Part::Kept(..)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_parameters() {
        let command = |name: &str, parameters: &[&str]| Command {
            name: name.to_owned(),
            parameters: parameters
                .iter()
                .map(|one| ((*one).to_owned(), Vec::new()))
                .collect(),
        };
        assert_eq!(check(&command("echo", &["var", "default"])), Ok(()));
        for (name, parameters, why) in [
            ("nosuch", &["a"][..], "invalid SSI command: \"nosuch\""),
            (
                "echo",
                &[],
                "mandatory \"var\" parameter is absent in \"echo\" SSI command",
            ),
            (
                "echo",
                &["foo"],
                "invalid parameter name: \"foo\" in \"echo\" SSI command",
            ),
            (
                "echo",
                &["var", "var"],
                "duplicate \"var\" parameter in \"echo\" SSI command",
            ),
        ] {
            assert_eq!(check(&command(name, parameters)), Err(why.to_owned()));
        }
    }
}
