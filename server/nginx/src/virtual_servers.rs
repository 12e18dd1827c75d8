//! What the pipeline asks the virtual servers of an nginx.conf.

use sluice_message::ConnInfo;
use sluice_net::{ClientLimits, Completion, Failure, Refused, Settings};

use super::{Tree, client_timeouts};
use sluice_pipeline::context::Exchange;
use sluice_pipeline::failure::Fault;
use sluice_pipeline::virtual_servers::VirtualServers;

impl VirtualServers for Tree {
    fn refuse(&self, exchange: &mut Exchange, refused: &Refused<'_>) -> Option<Fault> {
        self.refused(exchange, refused)
    }

    fn notes_of(&self, exchange: &Exchange) -> Option<usize> {
        self.place(exchange).errors
    }

    fn drop_slow(&self) -> bool {
        true
    }

    fn client_gone(&self, exchange: &mut Exchange, failure: Option<&Failure>) {
        self.tell_gone(exchange, failure);
    }

    fn ended(&self, exchange: &mut Exchange, completion: &Completion) {
        self.note_ending(exchange, completion);
    }

    fn client_limits(&self, exchange: &Exchange) -> &ClientLimits {
        self.timeouts_of(self.place(exchange)).limits()
    }

    fn server_of(&self, conn: &ConnInfo) -> u32 {
        self.asked_by(conn)
    }

    fn settings(&self, common: &Settings) -> (Settings, Option<Vec<Settings>>) {
        client_timeouts::per_server(self, common)
    }
}
