//! HTTP of the real program, byte by byte, by those who mean well and by those who do not.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Onramp, TestFolder, WATCHDOG, command, query_through_onramp, run};

/// An Onramp with HTTP. Its server cannot be reached, unless a private one is asked for.
struct Site {
    folder: TestFolder,
    onramp: Onramp,
    address: String,
    /// Where clients come.
    listening: String,
}

/// Nobody listens there.
const NO_SERVER: [&str; 2] = ["--backend", "mysql://root@127.0.0.1:1/"];

impl Site {
    fn without_server(options: &[&str]) -> Self {
        Self::new(&[&NO_SERVER, options].concat())
    }

    fn new(options: &[&str]) -> Self {
        let folder = TestFolder::new();
        let mut onramp = Onramp::start(&folder, &[&["--http-listen", "127.0.0.1:0"], options].concat());
        let line = onramp.wait_for("ready: listening on ");
        let (before, rest) = line.split_once("; http://").expect("it says where HTTP is");
        let address = String::from(rest.trim_end_matches('/'));
        let (_, listening) = before.split_once("listening on ").expect("it says where clients come");
        let listening = String::from(listening);
        Self { folder, onramp, address, listening }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream
    }

    /// All that comes back for these bytes.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may hang up before it has read all.
        let _ = stream.write_all(bytes);
        rest(&mut stream)
    }

    fn ask(&self, method: &str, path: &str, headers: &str) -> Reply {
        let host = &self.address;
        Reply::of(&self.raw(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").as_bytes()))
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "")
    }

    /// Looks until it is as it should be: what is seen may be a second old.
    fn until<T: std::fmt::Debug>(&self, look: impl Fn() -> T, is_right: impl Fn(&T) -> bool) -> T {
        let deadline = std::time::Instant::now() + WATCHDOG;
        loop {
            let seen = look();
            if is_right(&seen) {
                return seen;
            }
            assert!(std::time::Instant::now() < deadline, "{seen:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks until the status is this one.
    fn wait_for(&self, path: &str, status: u16) -> Reply {
        self.until(|| self.get(path), |reply| reply.status == status)
    }
}

/// What comes until the end. A reset is one, too.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            // The kernel does not take a read with a deadline up again (signal(7)).
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.into() }
    }
}

/// `onramp:secret` and `onramp:wrong`.
const RIGHT: &str = "Authorization: Basic b25yYW1wOnNlY3JldA==\r\n";
const WRONG: &str = "Authorization: Basic b25yYW1wOndyb25n\r\n";

#[test]
fn probes_tell_a_loop_that_turns_from_clients_that_can_be_served() {
    let site = Site::without_server(&[]);
    assert_eq!((site.get("/livez").status, &*site.get("/livez").body), (200, "live\n"));
    let reply = site.get("/readyz");
    assert_eq!(reply.status, 503);
    assert_eq!(reply.body, "not ready: worker 0 has not read the server's accounts yet\n");
    assert_eq!(site.ask("HEAD", "/livez", "").body, "");
    site.onramp.end();
}

#[test]
fn it_is_ready_until_it_is_drained_and_then_goes_on_answering() {
    let mut site = Site::new(&["--http-password", "secret", "--shutdown-timeout", "10m"]);
    assert_eq!(site.wait_for("/readyz", 200).body, "ready\n");
    let order = |headers: &str| site.ask("POST", "/drain", headers);
    assert_eq!(order("").status, 401);
    assert_eq!(order(WRONG).status, 401);
    assert_eq!(order(&format!("{RIGHT}Origin: http://evil.example\r\n")).status, 403);
    assert_eq!(site.ask("GET", "/drain", RIGHT).status, 405);
    assert_eq!(site.get("/readyz").status, 200, "nothing has happened yet");
    // Somebody in the middle of something keeps it from ending at once.
    let mut client = Client::in_transaction(&site);
    assert_eq!(order(RIGHT).status, 202);
    assert_eq!(site.get("/readyz").body, "not ready: it ends, and new clients should go elsewhere\n");
    assert_eq!(order(RIGHT).body, "it is ending already\n");
    assert_eq!(site.get("/livez").status, 200);
    client.end();
    assert!(site.onramp.wait().success(), "{}", site.onramp.log());
    assert!(site.onramp.log().contains("http: wrong password from 127.0.0.1"));
}

#[test]
fn it_serves_on_while_balancers_learn_that_it_ends() {
    // Long enough for the clients below; the second signal ends the wait.
    let mut site = Site::new(&["--drain-wait", "10m", "--shutdown-timeout", "10m"]);
    site.wait_for("/readyz", 200);
    let mut client = Client::in_transaction(&site);
    site.onramp.signal(Signal::TERM);
    site.onramp.wait_for("for 600 s (drain_wait) clients are served as before");
    assert_eq!(site.get("/readyz").body, "not ready: it ends, and new clients should go elsewhere\n");
    assert_eq!(site.get("/livez").status, 200);
    assert_eq!(query_through_onramp(&site.folder, "SELECT 1"), "1\n", "who comes now is served");
    client.end();
    site.onramp.signal(Signal::TERM);
    assert!(site.onramp.wait().success(), "{}", site.onramp.log());
}

#[test]
fn nobody_new_is_served_once_the_wait_is_over() {
    let mut site = Site::new(&["--drain-wait", "1ms", "--shutdown-timeout", "10m"]);
    site.wait_for("/readyz", 200);
    let mut client = Client::in_transaction(&site);
    site.onramp.signal(Signal::TERM);
    site.onramp.wait_for("for 0.001 s (drain_wait)");
    site.onramp.wait_for("ending: no new clients");
    // The listener is closed by the worker, a moment later.
    let listening = site.listening.clone();
    site.until(|| TcpStream::connect(&listening).is_err(), |refused| *refused);
    assert_eq!(site.get("/livez").status, 200, "one is still in a transaction");
    client.end();
    assert!(site.onramp.wait().success(), "{}", site.onramp.log());
}

#[test]
fn health_is_asked_for_where_there_is_no_other_program() {
    let site = Site::without_server(&["--http-password", "secret"]);
    let health = |arguments: &[&str]| {
        let output = run(&site.folder, &[&["health"], arguments].concat());
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let beside = ["--http-listen", &site.address];
    assert_eq!(health(&beside), (Some(0), String::from("live\n")));
    let unread = "not ready: worker 0 has not read the server's accounts yet\n";
    assert_eq!(health(&[&["--ready"], &beside[..]].concat()), (Some(1), String::from(unread)));
    let address = site.address.clone();
    site.onramp.end();
    let folder = TestFolder::new();
    let gone = run(&folder, &["health", "--http-listen", &address]);
    assert_eq!(gone.status.code(), Some(1));
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(said.contains(&format!("{address} (http_listen) does not answer /livez")), "{said}");
    for (wrong, why) in
        [("off", "http_listen is off"), ("127.0.0.1:0", "port 0"), ("nonsense::", "http-listen")]
    {
        let output = run(&folder, &["health", "--http-listen", wrong]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(why)), (Some(2), true), "{said}");
    }
}

/// What is counted in a text of metrics, all labels together.
fn sum(text: &str, name: &str) -> f64 {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        (series.split('{').next() == Some(name)).then(|| value.parse::<f64>().unwrap())
    };
    text.lines().filter_map(of).sum()
}

#[test]
fn metrics_count_what_clients_do() {
    let site = Site::new(&[]);
    site.wait_for("/readyz", 200);
    let get = |name: &str| {
        let reply = site.get("/metrics");
        assert!(reply.head.contains("content-type: text/plain; version=0.0.4"), "{reply:?}");
        sum(&reply.body, name)
    };
    let (connections, started) = (get("onramp_connections_total"), get("onramp_statements_started_total"));
    let refused = get("onramp_logins_refused_total");
    // What the client program itself asks is the same both times.
    let again = |statements: &str| query_through_onramp(&site.folder, statements);
    again("SELECT 1");
    let of_one = site.until(|| get("onramp_statements_started_total") - started, |more| *more > 0.0);
    again("SELECT 1; SELECT 2; SELECT 3");
    site.until(|| get("onramp_statements_started_total") - started, |more| *more == 2.0 * of_one + 2.0);
    assert_eq!(get("onramp_connections_total") - connections, 2.0);
    assert_eq!(get("onramp_logins_refused_total"), refused);
    assert!(get("onramp_permits") > 0.0 && get("onramp_server_up") == 1.0);
    assert!(get("onramp_wait_seconds_count") >= 2.0 * of_one + 2.0);
    site.onramp.end();
}

/// A `mariadb` that has begun something.
struct Client(std::process::Child);

impl Client {
    fn in_transaction(site: &Site) -> Self {
        use std::process::{Command, Stdio};
        let mut child = Command::new("mariadb")
            .arg(format!("--defaults-file={}", site.folder.data_dir().join("client.cnf").display()))
            .args(["--batch", "--unbuffered", "--skip-column-names"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"BEGIN; SELECT COUNT(*) > 0 FROM mysql.global_priv;\n")
            .unwrap();
        let mut answer = [0; 1];
        child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"1");
        Self(child)
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

#[test]
fn a_password_stands_in_front_of_all_but_what_machines_look_at() {
    let site = Site::without_server(&["--http-password", "secret"]);
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_ne!(site.get(path).status, 401, "{path}");
    }
    let reply = site.get("/");
    assert_eq!(reply.status, 401);
    assert!(reply.head.contains("www-authenticate: basic realm=\"onramp\""), "{reply:?}");
    assert_eq!(site.ask("GET", "/", WRONG).status, 401);
    let reply = site.ask("GET", "/", RIGHT);
    assert_eq!(reply.status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src \
         'self' data:; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(reply.head.contains(header), "{header} in {reply:?}");
    }
    site.onramp.end();
}

/// Who guesses does not wait for answers that come late: those are wrong.
#[test]
fn guesses_have_to_wait_for_their_turn_whoever_hangs_up() {
    let mut site = Site::without_server(&["--http-password", "secret"]);
    let request = |password| format!("GET / HTTP/1.1\r\nHost: localhost\r\n{password}\r\n");
    assert_eq!(site.ask("GET", "/", WRONG).status, 401);
    let mut guesses: Vec<_> = (0..20).map(|_| site.connect()).collect();
    for stream in &mut guesses {
        stream.write_all(request(WRONG).as_bytes()).unwrap();
    }
    // Some wait for their turns, and behind these nobody's password is looked at, whatever it is.
    let statuses: Vec<_> = guesses.iter_mut().map(|stream| Reply::of(&rest(stream)).status).collect();
    let count = |status: u16| statuses.iter().filter(|of| **of == status).count();
    assert!(count(429) >= 10 && count(401) >= 1 && count(401) + count(429) == 20, "{statuses:?}");
    site.until(|| site.ask("GET", "/", RIGHT).status, |status| *status == 200);
    assert_eq!(site.get("/livez").status, 200);
    let log = site.onramp.log();
    assert!(log.matches("wrong password from 127.0.0.1").count() <= 3, "{log}");
    site.onramp.end();
}

#[test]
fn without_a_password_orders_are_taken_from_nobody() {
    let site = Site::without_server(&[]);
    let reply = site.ask("POST", "/drain", "");
    assert_eq!((reply.status, reply.body.contains("set http_password")), (403, true), "{reply:?}");
    assert_eq!(site.get("/").status, 200);
    site.onramp.end();
}

#[test]
fn other_machines_get_in_by_a_password_alone() {
    let folder = TestFolder::new();
    let arguments = [&["serve"], &NO_SERVER[..], &["--http-listen", "0.0.0.0:0"]].concat();
    let output = run(&folder, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("http_listen (0.0.0.0:0) is given without http_password"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_port_that_was_asked_for_has_to_be_free() {
    let folder = TestFolder::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let arguments =
        [&["serve", "--listen", "127.0.0.1:0"], &NO_SERVER[..], &["--http-listen", &taken]].concat();
    let output = run(&folder, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&format!("http_listen: cannot listen on {taken}: somebody listens there")),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1));
}

/// The default address belongs to whoever has it; here, or elsewhere on this machine.
#[test]
fn the_default_port_is_no_reason_not_to_serve() {
    use std::io::BufRead as _;
    let folder = TestFolder::new();
    let _holder = TcpListener::bind("127.0.0.1:9126");
    let mut child = command(&folder)
        .env_remove("ONRAMP_HTTP_LISTEN")
        .args(["serve", "--listen", "127.0.0.1:0", "--max-connections", "100"])
        .args(NO_SERVER)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let _onramp = Onramp::of(child);
    let mut said = String::new();
    for line in lines {
        said += &line;
        if line.contains("ready: ") {
            assert!(!line.contains("http://"), "{line}");
            break;
        }
    }
    assert!(
        said.contains("no HTTP, so neither metrics nor probes: 127.0.0.1:9126 cannot be listened on"),
        "{said}"
    );
    assert!(said.contains("ready: "), "{said}");
}

#[test]
fn what_is_no_proper_request_is_refused() {
    let mut site = Site::without_server(&[]);
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("GET /../livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        ("POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405),
        ("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        ("GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("GET /readyz HTTP/1.1\r\nHost: localhost.evil.example:9126\r\n\r\n", 421),
        ("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", 421),
        ("GET /livez HTTP/1.1\r\n\r\n", 400),
        ("GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("GET /livez HTTP/1.0\r\n\r\n", 200),
        ("GET /livez HTTP/1.1\r\nHost: [::1]:1\r\n\r\n", 200),
        ("CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1} this is TLS\r\n\r\n", 400),
        ("GET /livez HTTP/9.9\r\n\r\n", 400),
    ] {
        assert_eq!(Reply::of(&site.raw(request.as_bytes())).status, status, "{request}");
    }
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(1 << 20));
    let status = Reply::of(&site.raw(long_line.as_bytes())).status;
    assert!(matches!(status, 0 | 414 | 431), "{status}");
    let many = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(65));
    assert_eq!(Reply::of(&site.raw(many.as_bytes())).status, 431);
    // One answer, and what follows the first request is nobody's.
    let pipelined = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n\0\0garbage";
    assert_eq!(site.raw(pipelined.as_bytes()).matches("HTTP/1.1").count(), 1);
    assert_eq!(site.get("/livez").status, 200);
    assert!(!site.onramp.log().contains("panicked"));
    site.onramp.end();
}

#[test]
fn who_is_slow_is_cut_off_and_holds_up_nobody() {
    let site = Site::without_server(&[]);
    let mut slow = site.connect();
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: loc").unwrap();
    let mut silent = site.connect();
    assert_eq!(site.get("/livez").status, 200);
    // Their connections end, whatever they do.
    for stream in [&mut silent, &mut slow] {
        let reply = rest(stream);
        assert!(!reply.contains("200 OK"), "{reply}");
    }
    site.onramp.end();
}

#[test]
fn a_crowd_crowds_out_itself() {
    let site = Site::without_server(&["--http-max-connections", "16"]);
    let mut crowd: Vec<_> = (0..300).map(|_| site.connect()).collect();
    for stream in &mut crowd {
        // Those that were closed may take nothing any more.
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\n");
    }
    for _ in 0..20 {
        assert_eq!(site.get("/livez").status, 200);
    }
    // The first ones were closed for the last ones.
    let mut first = crowd.remove(0);
    assert_eq!(rest(&mut first), "");
    drop(crowd);
    site.onramp.end();
}
