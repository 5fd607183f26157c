//! HTTP for operators: metrics, probes, a page, and orders. What answers which path is in [`router`]; all of it runs on threads
//! of `web`.

mod api;
mod health;
mod metrics;
mod orders;
mod page;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use config::{Configuration, ListenAddress};
use drivers::InheritedSocket;
use web::{Access, Router, Settings};

use crate::Failure;
use crate::addresses;
use crate::control::glance::Glances;
use crate::history::History;
use api::Api;
use metrics::{Digests, Metrics};

/// Says where it is.
const OPTION: &str = "http_listen";

/// The socket that listens; the kernel holds those that come before [`HttpPort::open`].
pub(crate) struct HttpPort {
    listener: TcpListener,
    name: String,
}

impl HttpPort {
    /// Listens where the configuration says so, or on the socket that was handed over for that. A default address that somebody else
    /// has is no reason not to serve; the log says so.
    ///
    /// # Errors
    /// A line that names the address and what may be in the way.
    pub(crate) fn listen(
        configuration: &Configuration,
        handed_over: Option<InheritedSocket>,
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = &configuration.http_listen else { return Ok(None) };
        let listener = match handed_over {
            Some(socket) => {
                let socket = socket.blocking().map_err(|error| {
                    format!("http_listen: the socket that was handed over cannot be used: {error}")
                })?;
                Ok(TcpListener::from(socket))
            }
            None => bind(address),
        };
        match listener {
            Ok(listener) => {
                let actual =
                    listener.local_addr().map_err(|error| addresses::refusal(OPTION, address, &error))?;
                // A name is what the system takes it for: localhost, too.
                if !actual.ip().is_loopback() && configuration.http_password.is_empty() {
                    return Err(format!(
                        "http_listen: {address} is {actual}, which other machines reach, and there is no http_password: set one, or \
                         listen on 127.0.0.1"
                    )
                    .into());
                }
                Ok(Some(Self { listener, name: actual.to_string() }))
            }
            Err(error) if configuration.is_chosen(OPTION) => {
                Err(addresses::refusal(OPTION, address, &error).into())
            }
            Err(error) => {
                tracing::warn!(
                    "no HTTP, so neither metrics nor probes: {address} cannot be listened on: {error}. Set http_listen to an \
                     address that is free, or to off"
                );
                Ok(None)
            }
        }
    }

    /// Where it listens.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Serves from here on.
    ///
    /// # Errors
    /// Where the system has no more threads or descriptors.
    pub(crate) fn open(self, glances: Arc<Glances>, history: Arc<History>) -> Result<(), Failure> {
        let settings = {
            let configuration = glances.control.configuration();
            Settings {
                password: configuration.http_password.clone(),
                max_connections: configuration.http_max_connections as usize,
                on_wrong_password: Box::new(|peer, count| match count {
                    1 => tracing::warn!("http: wrong password from {}", peer.ip()),
                    _ => tracing::warn!(
                        "http: wrong password from {}; {count} of all networks since that was told before",
                        peer.ip()
                    ),
                }),
            }
        };
        web::serve(self.listener, router(glances, history), settings)
            .map_err(|error| format!("HTTP cannot be served: {error}").into())
    }
}

/// What there is.
fn router(glances: Arc<Glances>, history: Arc<History>) -> Router {
    let control = Arc::clone(&glances.control);
    let metrics = Metrics::new(Arc::clone(&glances));
    let digests = Digests::new(Arc::clone(&control));
    let api = Arc::new(Api::new(Arc::clone(&glances), history));
    let (now, tables) = (Arc::clone(&api), api);
    let (live, ready) = (Arc::clone(&glances), glances);
    let router = Router::default()
        .with("/api/now", Access::Private, move |request| now.now(request))
        .with("/api/tables", Access::Private, move |request| tables.tables(request))
        .with("/metrics", Access::Free, move |_| metrics.answer())
        .with("/metrics/digests", Access::Free, move |_| digests.answer())
        .with("/livez", Access::Free, move |_| health::live(&live))
        .with("/readyz", Access::Free, move |_| health::ready(&ready))
        .with("/drain", Access::Order, move |request| orders::drain(&control, request));
    page::add(router)
}

fn bind(address: &ListenAddress) -> io::Result<TcpListener> {
    let ListenAddress::Tcp { host, port, .. } = address else {
        return Err(io::Error::other("it is no TCP address"));
    };
    let found = addresses::look_up(host, *port).map_err(io::Error::other)?;
    TcpListener::bind(found.as_slice())
}
