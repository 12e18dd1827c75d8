//! The admin endpoint for other machines (`admin.remote`).

use std::thread;

use sluice_admin::{Address, Endpoint, RemoteAccess};
use sluice_model::Admin;

use super::Process;

/// Its address, if the configuration has one.
pub(super) fn address(admin: Option<&Admin>) -> Result<Option<Address>, String> {
    let Some(remote) = admin.and_then(|admin| admin.remote.as_ref()) else {
        return Ok(None);
    };
    let listen = match remote.listen.as_str() {
        "" => Address::REMOTE_DEFAULT,
        listen => listen,
    };
    let address = Address::parse(listen).map_err(|error| error.to_string());
    address.map(Some)
}

impl Process {
    /// Opens, changes or closes the admin endpoint for other machines, as the running configuration says. Without it the
    /// server goes on.
    pub(super) fn open_remote(&mut self) {
        let config = self.server.config();
        let remote = config
            .admin
            .as_ref()
            .and_then(|admin| admin.remote.as_ref());
        let Some((remote, tls)) = remote.zip(self.server.remote_admin()) else {
            if let Some(endpoint) = self.remote.take() {
                // In a separate thread, because it may be sending the response to the request that closed it.
                thread::spawn(|| endpoint.close());
            }
            return;
        };
        let (access, acceptor) = (RemoteAccess::new(remote, &tls.judges), tls.acceptor());
        let opened = match (address(config.admin.as_ref()), &mut self.remote) {
            (Ok(None), _) => return,
            (Err(why), _) => Err(why),
            (Ok(Some(address)), Some(endpoint)) => endpoint
                .change_remote(address, access, acceptor)
                .map_err(|error| error.to_string()),
            (Ok(Some(address)), None) => {
                let (orders, current) = (self.orders.clone(), self.current.clone());
                let handed = std::mem::take(&mut self.remote_handed);
                Endpoint::start_remote(address, access, acceptor, (orders, current), handed)
                    .map(|endpoint| self.remote = Some(endpoint))
                    .map_err(|error| error.to_string())
            }
        };
        let address = self.remote.as_ref().map(Endpoint::address);
        match opened {
            Ok(()) => self
                .log
                .info("admin", "remote admin endpoint started")
                .text(
                    "address",
                    address.map(ToString::to_string).unwrap_or_default(),
                )
                .send(),
            Err(error) => self
                .log
                .error("admin", "remote admin endpoint is not available")
                .text("error", error)
                .send(),
        }
    }
}
