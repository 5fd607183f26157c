use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use wire::{Capabilities, Column, ErrPacket, OkPacket, ResultSetWriter, StatusFlags};

use super::*;

const SCRAMBLE: [u8; 20] = *b"abcdefghijklmnopqrst";

/// A server whose words are known before, and which keeps what it hears.
struct Script {
    words: io::Cursor<Vec<u8>>,
    heard: Rc<RefCell<Vec<u8>>>,
    /// Each second time it reads nothing, since a signal has come.
    interrupted: bool,
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !std::mem::replace(&mut self.interrupted, true) {
            return Err(ErrorKind::Interrupted.into());
        }
        self.interrupted = false;
        // A byte at a time, so that nothing depends on how it arrives.
        let one = buffer.len().min(1);
        self.words.read(&mut buffer[..one])
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the server says, message by message.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn say(mut self, sequence: u8, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut payload = Vec::new();
        put(&mut payload);
        wire::put_message(&mut self.0, &mut { sequence }, &payload);
        self
    }

    fn greet(self, plugin: &[u8]) -> Self {
        let greeting = Greeting {
            server_version: b"5.5.5-10.11.19-MariaDB",
            connection_id: 7,
            scramble: SCRAMBLE,
            capabilities: Capabilities::PLUGIN_AUTH
                | Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION,
            collation: COLLATION,
            status: StatusFlags::AUTOCOMMIT,
            auth_plugin: plugin,
        };
        self.say(0, |payload| greeting.put(payload))
    }

    fn let_in(self, sequence: u8) -> Self {
        self.say(sequence, |payload| OkPacket::plain(StatusFlags::AUTOCOMMIT).put(payload, false))
    }

    /// To the question for system variables, and to that for status variables.
    fn answer(self, max_connections: &[u8]) -> Self {
        let variables =
            self.list(&[(b"max_connections", max_connections), (b"version", b"10.11.19-MariaDB")]);
        variables.list(&[(b"Uptime", b"5")])
    }

    fn list(mut self, rows: &[(&[u8], &[u8])]) -> Self {
        let columns = [Column::text("Variable_name"), Column::text("Value")];
        let mut sequence = 1;
        let mut writer = ResultSetWriter::begin(
            &mut self.0,
            &mut sequence,
            &columns,
            StatusFlags::AUTOCOMMIT,
            Capabilities::NONE,
        );
        rows.iter().for_each(|&(name, value)| writer.row(&[Some(name), Some(value)]));
        writer.finish();
        self
    }

    /// What is made of it, and the payloads of what was sent.
    fn hear(self, password: &str, is_private: bool) -> (Result<ServerAnswer, NoAnswer>, Vec<Vec<u8>>) {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let script = Script { words: io::Cursor::new(self.0), heard: Rc::clone(&heard), interrupted: false };
        let url = format!("--backend=mysql://app:{password}@db/");
        let backend = config::load(&[url], []).unwrap().backends.remove(0);
        let answer = ask_over(&mut Connection::new(script, is_private), &backend);
        let bytes = heard.borrow();
        let mut rest = &bytes[..];
        let mut payloads = Vec::new();
        while let Some(&[a, b, c, _]) = rest.first_chunk() {
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            payloads.push(rest[4..4 + length].to_vec());
            rest = &rest[4 + length..];
        }
        (answer, payloads)
    }
}

#[test]
fn a_native_password_and_the_answer() {
    let words = Words::default().greet(NATIVE_PASSWORD).let_in(2).answer(b"151");
    let (answer, sent) = words.hear("secret", false);
    let answer = answer.unwrap();
    assert_eq!((answer.max_connections(), answer.counted("Uptime")), (151, Some(5)));
    assert_eq!((answer.word("version"), answer.number("version")), (Some("10.11.19-MariaDB"), None));
    let request = LoginRequest::parse(&sent[0]).unwrap();
    assert_eq!(request.user, b"app");
    let stored = native_password::stage2(&native_password::stage1(b"secret"));
    assert!(native_password::verify(request.auth_response, &SCRAMBLE, &stored).is_some());
    assert!(
        sent[1]
            .starts_with(b"\x03SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'max_connections', ")
    );
    assert_eq!(
        sent[2],
        b"\x03SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Open_tables', 'Opened_tables')"
    );
}

#[test]
fn another_method_is_switched_to() {
    let switch = AuthSwitch { plugin: CACHING_SHA2_PASSWORD, data: &SCRAMBLE };
    let words = Words::default()
        .greet(b"ed25519")
        .say(2, |payload| switch.put(payload))
        .say(4, |payload| payload.extend_from_slice(&[MORE_DATA, FAST_AUTH_SUCCESS]))
        .let_in(5)
        .answer(b"100");
    let (answer, sent) = words.hear("secret", false);
    assert_eq!(answer.unwrap().max_connections(), 100);
    // Computed apart, with Python's hashlib, by the formula of MySQL's documentation.
    let hexadecimal: String = sent[1].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hexadecimal, "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809");
}

#[test]
fn a_password_is_sent_as_it_is_only_where_nobody_reads_along() {
    let words = || {
        Words::default()
            .greet(CACHING_SHA2_PASSWORD)
            .say(2, |payload| payload.extend_from_slice(&[MORE_DATA, PERFORM_FULL_AUTHENTICATION]))
            .let_in(4)
            .answer(b"100")
    };
    let (answer, sent) = words().hear("hush", true);
    assert!(answer.is_ok());
    assert_eq!(sent[1], b"hush\0");
    let (answer, sent) = words().hear("hush", false);
    assert!(answer.unwrap_err().to_string().contains("not sent in the clear"));
    assert!(!sent.concat().windows(4).any(|bytes| bytes == b"hush"));
}

#[test]
fn what_goes_wrong_is_said() {
    let error = ErrPacket { code: 1045, sql_state: *b"28000", message: b"Access denied" };
    let denied = Words::default().greet(NATIVE_PASSWORD).say(2, |payload| error.put(payload));
    assert_eq!(denied.hear("hush", false).0.unwrap_err().to_string(), "error 1045: Access denied");

    let unknown = AuthSwitch { plugin: b"parsec", data: b"" };
    let words = Words::default().greet(NATIVE_PASSWORD).say(2, |payload| unknown.put(payload));
    assert_eq!(words.hear("hush", false).0, Err(NoAnswer::OtherMethod("parsec".to_owned())));

    assert_eq!(Words::default().hear("", false).0, Err(NoAnswer::Closed));
    let words = Words::default().greet(NATIVE_PASSWORD).let_in(2).answer(b"many");
    assert_eq!(words.hear("", false).0, Err(NoAnswer::NoLimit));
    let endless = vec![(&b"max_connections"[..], &b"151"[..]); 20];
    let words = Words::default().greet(NATIVE_PASSWORD).let_in(2).list(&endless);
    assert_eq!(words.hear("", false).0, Err(NoAnswer::OtherAnswer));
}

#[test]
fn bytes_that_are_cut_or_changed_do_no_harm() {
    let whole = Words::default().greet(NATIVE_PASSWORD).let_in(2).answer(b"151").0;
    for at in 0..whole.len() {
        assert!(Words(whole[..at].to_vec()).hear("secret", false).0.is_err(), "{at}");
        for value in [0, 1, 0xfb, 0xfe, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            // Some changes are harmless (the version, a scramble); none may panic or hang.
            let _ = Words(changed).hear("secret", false);
        }
    }
}
