//! Starts the processes of one renewal: directly, or by the parent that has preloaded the application.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::launch::{Lanes, Launcher, Purpose};
use super::launched::Launched;
use super::preload::Parent;
use crate::failure::StartFailure;
use crate::group::Group;

/// Starts processes that are alike.
pub(super) struct Starter {
    group: Arc<Group>,
    launcher: Launcher,
    parent: RefCell<Option<Rc<Parent>>>,
}

impl Starter {
    /// Finds the interpreter.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn new(group: &Arc<Group>) -> Result<Starter, StartFailure> {
        Ok(Starter {
            group: group.clone(),
            launcher: Launcher::new(&group.settings, group.workers)?,
            parent: RefCell::default(),
        })
    }

    /// Starts a process with these lanes.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn launch(&self, lanes: &Lanes) -> Result<Launched, StartFailure> {
        let settings = &self.group.settings;
        self.launcher.launch(settings, lanes, Purpose::Worker)
    }

    /// The parent of preloaded processes. One that has ended is replaced.
    ///
    /// # Errors
    ///
    /// It could not be started.
    pub fn parent(&self) -> Result<Rc<Parent>, StartFailure> {
        let known = self.parent.borrow().clone();
        if let Some(parent) = known.filter(|parent| !parent.is_gone()) {
            return Ok(parent);
        }
        let parent = Parent::start(&self.launcher, &self.group)?;
        *self.parent.borrow_mut() = Some(parent.clone());
        Ok(parent)
    }
}
