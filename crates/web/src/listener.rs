//! Connections: how many there may be, how long one lasts, and how much of it is read.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Response;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use zeroize::Zeroizing;

use crate::answer::response;
use crate::guard::{Guard, Refusal};
use crate::guesses::{Guesses, Turn};
use crate::{Access, Answer, Request, Router};

/// Within this time a request has to have come. It is one packet; a line that is slow needs a second.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// As long as a connection may last, from when it is accepted to the last byte of the answer. A handler waits two seconds at most for
/// workers that are stuck, and Prometheus itself gives up after ten.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a request line with its headers. Browsers send one or two kilobytes; hyper's least is 8 KiB.
const LONGEST_HEAD: usize = 16 << 10;

/// Headers of a request. Browsers send about twenty.
const MOST_HEADERS: usize = 64;

/// Handlers that run at the same time, each on a thread. What they do takes microseconds, or waits for the workers, which all of
/// them wait for together.
const HANDLERS: usize = 2;

/// Where accepting fails (no descriptor is left), the next attempt is this much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How the port is set up.
pub struct Settings {
    /// What stands in front of all that is not free; empty for none.
    pub password: Zeroizing<String>,
    /// Connections at the same time, from 1. For one more, the oldest of the address that has most is closed: who opens many
    /// crowds out himself.
    pub max_connections: usize,
    /// Told of wrong passwords, each ten seconds at most: from where the last one came, and how many there have been since it was
    /// told before, with those that were not looked at.
    pub on_wrong_password: Box<dyn Fn(SocketAddr, u64) + Send + Sync>,
}

struct Site {
    router: Router,
    guard: Guard,
    guesses: Mutex<Guesses>,
    settings: Settings,
    handlers: Arc<Semaphore>,
}

/// Serves on a thread of its own, for as long as the process is there.
///
/// # Errors
/// Where the system has no more threads or descriptors.
pub fn serve(listener: TcpListener, router: Router, settings: Settings) -> io::Result<()> {
    let guard = Guard::new(&settings.password, listener.local_addr()?.ip().is_loopback());
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(HANDLERS)
        .thread_name("http handler")
        .build()?;
    let (guesses, handlers) = (Mutex::default(), Arc::new(Semaphore::new(HANDLERS)));
    let site = Site { router, guard, guesses, settings, handlers };
    let listener = {
        let _within = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let run = move || runtime.block_on(accept(&listener, Arc::new(site)));
    std::thread::Builder::new().name(String::from("http")).spawn(run).map(|_| ())
}

impl Site {
    /// Whether what is at a path with this access may be had; a password is looked at when its turn has come.
    async fn admit(
        &self,
        access: Access,
        request: &hyper::Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<(), Refusal> {
        let check = || self.guard.check(access, request.method(), request.headers());
        if !self.guard.is_given_password(access, request.headers()) {
            return check();
        }
        let turn = self.with_guesses(|guesses| guesses.turn(Instant::now(), peer.ip()));
        let checked = match turn {
            Turn::Now => check(),
            Turn::After(wait) => {
                tokio::time::sleep(wait).await;
                check()
            }
            Turn::Never => Err(Refusal::TooManyGuesses),
        };
        let told = self.with_guesses(|guesses| match &checked {
            Ok(()) => {
                guesses.right(peer.ip());
                None
            }
            Err(Refusal::WrongPassword) => guesses.wrong(Instant::now(), peer.ip()),
            Err(Refusal::TooManyGuesses) => guesses.tell(Instant::now()),
            Err(_) => None,
        });
        if let Some(count) = told {
            (self.settings.on_wrong_password)(peer, count);
        }
        checked
    }

    fn with_guesses<T>(&self, act: impl FnOnce(&mut Guesses) -> T) -> T {
        // Nothing is left half done in it.
        act(&mut self.guesses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn accept(listener: &tokio::net::TcpListener, site: Arc<Site>) {
    let mut connections = Connections { open: Vec::new(), most: site.settings.max_connections };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                connections.make_room();
                let served = serve_connection(stream, peer, Arc::clone(&site));
                connections.open.push((peer.ip(), tokio::spawn(served).abort_handle()));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Those that are open, the oldest first.
struct Connections {
    open: Vec<(IpAddr, AbortHandle)>,
    most: usize,
}

impl Connections {
    /// For one more.
    fn make_room(&mut self) {
        self.open.retain(|(_, connection)| !connection.is_finished());
        if self.open.len() < self.most {
            return;
        }
        let of = |ip| self.open.iter().filter(|(other, _)| *other == ip).count();
        let most = self.open.iter().map(|&(ip, _)| of(ip)).max();
        if let Some(oldest) = self.open.iter().position(|&(ip, _)| Some(of(ip)) == most) {
            self.open.remove(oldest).1.abort();
        }
    }
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, site: Arc<Site>) {
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, std::convert::Infallible>(answer(request, peer, site).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever ends it, there is nobody to tell.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
}

async fn answer(
    request: hyper::Request<Incoming>,
    peer: SocketAddr,
    site: Arc<Site>,
) -> Response<Full<Bytes>> {
    let headers = request.headers();
    if let Err(refusal) = site.guard.check_host(request.version(), request.uri(), headers) {
        return refused(&refusal);
    }
    let path = request.uri().path();
    let Some(route) = site.router.find(path) else {
        return response(Answer::line(404, "nothing is here; / says what there is"), None);
    };
    if let Err(refusal) = site.admit(route.access, &request, peer).await {
        return refused(&refusal);
    }
    let asked = Request { peer, query: String::from(request.uri().query().unwrap_or_default()) };
    let path = String::from(path);
    let handlers = Arc::clone(&site.handlers);
    let Ok(permit) = handlers.acquire_owned().await else { return failed() };
    let handled = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        site.router.find(&path).map(|route| (route.handler)(&asked))
    });
    match handled.await {
        Ok(Some(answer)) => response(answer, None),
        // It panicked, which the log says.
        _ => failed(),
    }
}

fn refused(refusal: &Refusal) -> Response<Full<Bytes>> {
    response(refusal.answer(), refusal.header())
}

fn failed() -> Response<Full<Bytes>> {
    response(Answer::line(500, "this is a defect of onramp; its log says more"), None)
}
