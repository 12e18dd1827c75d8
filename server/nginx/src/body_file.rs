//! `nginx_body_file`: stores request bodies in files with names, so that upstreams can read them
//! (`client_body_in_file_only`). The path is `$request_body_file`.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluice_message::Status;
use sluice_model::nginx::BodyFile as Config;
use sluice_net::spool::{AfterUse, Names, SpoolFile};
use sluice_net::{BodyStream, Failure, RequestBody, Side};

use crate::limits::BODY_FILE_PIECE_BYTES;
use crate::state::NginxContext;
use sluice_pipeline::build::Builder;
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::handler::{Account, Assumed, Handler, Step, Waiting};
use sluice_pipeline::refusal::Refusal;
use sluice_proxy::reverse_proxy::buffering::temporary_folder;

struct BodyFile {
    names: Arc<Names>,
}

/// Builds the handler.
pub fn build(config: &Config, builder: &Builder<'_>) -> Result<Box<dyn Handler>, Refusal> {
    let after_use = match config.keep {
        true => AfterUse::Keep,
        false => AfterUse::Remove,
    };
    let folder = temporary_folder(&config.folder, &config.origin, builder)?;
    Ok(Box::new(BodyFile {
        names: Arc::new(Names::new(folder, &config.levels, after_use)),
    }))
}

impl Handler for BodyFile {
    fn serve(&self, exchange: &mut Exchange) -> Step {
        let is_stored = exchange.context.occasional().body_file.is_some();
        match exchange.body.is_none() || is_stored {
            true => Step::Next,
            false => Step::Later,
        }
    }

    fn wait<'a>(&'a self, exchange: &'a mut Exchange) -> Waiting<'a> {
        Box::pin(async move {
            let RequestBody::Stream(body) = exchange.body.take() else {
                return Step::Next;
            };
            match self.store(exchange, body).await {
                Ok(()) => Step::Next,
                Err(fault) => Step::Fail(fault),
            }
        })
    }

    fn account(&self, _x: &mut Exchange) -> Account {
        Account {
            says: vec!["would store the request body in a file".to_owned()],
            assumed: Some(Assumed::Step(Step::Next)),
        }
    }
}

impl BodyFile {
    /// Stores the body, which is read from the file from then on.
    async fn store(
        &self,
        exchange: &mut Exchange,
        mut body: Box<dyn BodyStream>,
    ) -> Result<(), Fault> {
        let unavailable = |why: String| Fault::new(Status::INTERNAL_SERVER_ERROR, why);
        let Some(mut file) = SpoolFile::begin_named(&exchange.worker, &self.names) else {
            return Err(unavailable("too many temporary files".to_owned()));
        };
        let mut length = 0;
        loop {
            let piece = poll_fn(|cx| {
                body.poll_data(cx)
                    .map_ok(|data| data[..data.len().min(BODY_FILE_PIECE_BYTES)].to_vec())
            });
            let piece = piece.await?;
            let count = piece.len();
            body.consume(count);
            if count == 0 && length > 0 {
                break;
            }
            // An empty body is an empty file.
            let mut pieces = vec![piece];
            let written = async {
                poll_fn(|cx| file.poll_write(cx, &mut pieces, length)).await?;
                poll_fn(|cx| file.poll_written(cx)).await.outcome
            };
            written.await.map_err(|error| {
                unavailable(format!("a request body cannot be stored: {error}"))
            })?;
            length += count as u64;
            if count == 0 {
                break;
            }
        }
        exchange.context.occasional_mut().body_file = file.path().map(Arc::from);
        let file = Rc::new(file);
        // The file exists until the request ends, even if nobody reads it.
        let aside = exchange.context.aside.get_or_insert_default();
        aside.guards.push(Box::new(file.clone()));
        exchange.body = RequestBody::Stream(Box::new(Stored {
            file,
            length,
            at: 0,
            window: Vec::new(),
            window_at: 0,
        }));
        Ok(())
    }
}

/// A body that is read from its file.
struct Stored {
    file: Rc<SpoolFile>,
    length: u64,
    /// Where the next window begins.
    at: u64,
    window: Vec<u8>,
    window_at: usize,
}

impl BodyStream for Stored {
    fn len(&self) -> Option<u64> {
        let shown = (self.window.len() - self.window_at) as u64;
        Some(self.length - self.at + shown)
    }

    fn poll_data(&mut self, _cx: &mut Context<'_>) -> Poll<Result<&[u8], Failure>> {
        if self.window_at == self.window.len() && self.at < self.length {
            self.window.clear();
            self.window_at = 0;
            let left = usize::try_from(self.length - self.at).unwrap_or(usize::MAX);
            let count = left.min(BODY_FILE_PIECE_BYTES);
            self.file
                .read(&mut self.window, self.at, count)
                .map_err(|error| Failure::from_io(Side::Internal, error))?;
            self.at += count as u64;
        }
        Poll::Ready(Ok(&self.window[self.window_at..]))
    }

    fn consume(&mut self, count: usize) {
        self.window_at += count;
    }

    fn is_rewindable(&self) -> bool {
        true
    }

    fn rewind(&mut self) {
        self.window.clear();
        (self.at, self.window_at) = (0, 0);
    }
}
