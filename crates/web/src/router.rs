//! Which handler a path belongs to.

use std::net::SocketAddr;

use crate::Answer;

/// Who may have what is at a path, and how it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the port, by GET or HEAD: what machines look at again and again, and what tells nobody's secrets.
    Free,
    /// By GET or HEAD; with the password, where one is set.
    Private,
    /// It changes something: by POST, with the password; where none is set, nobody.
    Order,
}

/// What a handler is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub peer: SocketAddr,
    /// What stands behind `?`, as it came; empty for nothing.
    pub query: String,
}

/// What answers a request. It may block: it runs on a thread for that.
pub(crate) type Handler = Box<dyn Fn(&Request) -> Answer + Send + Sync>;

/// What there is.
#[derive(Default)]
pub struct Router {
    routes: Vec<Route>,
}

pub(crate) struct Route {
    path: &'static str,
    pub(crate) access: Access,
    pub(crate) handler: Handler,
}

impl Router {
    /// Adds what is at this path, which begins with `/` and is compared as a whole.
    #[must_use]
    pub fn with(
        mut self,
        path: &'static str,
        access: Access,
        handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        debug_assert!(self.find(path).is_none(), "{path} is there already");
        self.routes.push(Route { path, access, handler: Box::new(handler) });
        self
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.path == path)
    }
}
