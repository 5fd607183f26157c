//! Logins on the virtual server: `mysql_native_password`, with a change of scramble now and then.

use super::database::{Account, Database, SCHEMAS};
use super::kind::Kind;
use super::reply::ServerError;
use super::session::Session;
use crate::protocol::{Cursor, capability, native_token, packet, status};
use crate::random::Random;

/// What the server offers. MariaDB leaves bit 0 unset to say that capabilities of its own follow.
pub const OFFERED: u32 = 0x81ff_f7fe & !capability::COMPRESS & !capability::SSL;

/// MariaDB's own capabilities: progress reports, bulk operations, extended and cached metadata.
const OFFERED_BY_MARIADB: u32 = 0x1d;

const PLUGIN: &[u8] = b"mysql_native_password";

/// A login, or a change of user, under way.
#[derive(Clone, Debug)]
pub struct Login {
    scramble: [u8; 20],
    request: Option<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    user: String,
    schema: Option<String>,
    capabilities: u32,
    collation: u8,
}

/// What a packet of a login leads to.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Send [`Login::switch`] and wait for the answer.
    Switch,
    /// The password is right.
    Right,
    /// It is not, or the schema is missing.
    Wrong(ServerError),
    /// That was no login.
    Broken(String),
}

impl Login {
    /// A login with a fresh scramble.
    pub fn new(random: &mut Random) -> Self {
        Self { scramble: scramble(random), request: None }
    }

    /// A change of user: its request is in the command's payload. MariaDB answers each with a fresh scramble, whatever
    /// proof the command brings.
    pub fn change_user(random: &mut Random, payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(payload.get(1..)?);
        let user = text(cursor.until_nul()?);
        cursor.string()?;
        let schema = text(cursor.until_nul()?);
        let collation = cursor.short().map_or(0, |id| id.to_le_bytes()[0]);
        let schema = Some(schema).filter(|schema| !schema.is_empty());
        let request = Request { user, schema, capabilities: 0, collation };
        Some(Self { scramble: scramble(random), request: Some(request) })
    }

    /// The greeting: Protocol::HandshakeV10.
    pub fn greeting(&self, kind: Kind, thread_id: u32) -> Vec<u8> {
        let (offered, own) = match kind {
            Kind::MariaDb => (OFFERED, OFFERED_BY_MARIADB),
            Kind::MySql => (OFFERED | 1, 0),
        };
        let offered = offered.to_le_bytes();
        let mut out = vec![10];
        out.extend_from_slice(kind.version().as_bytes());
        out.push(0);
        out.extend_from_slice(&thread_id.to_le_bytes());
        out.extend_from_slice(&self.scramble[..8]);
        out.push(0);
        out.extend_from_slice(&offered[..2]);
        out.push(8); // latin1_swedish_ci
        out.extend_from_slice(&status::AUTOCOMMIT.to_le_bytes());
        out.extend_from_slice(&offered[2..]);
        out.push(21); // scramble and NUL
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&own.to_le_bytes());
        out.extend_from_slice(&self.scramble[8..]);
        out.push(0);
        out.extend_from_slice(PLUGIN);
        out.push(0);
        packet(0, &out)
    }

    /// Protocol::AuthSwitchRequest.
    pub fn switch(&self, sequence: u8) -> Vec<u8> {
        let mut out = vec![0xfe];
        out.extend_from_slice(PLUGIN);
        out.push(0);
        out.extend_from_slice(&self.scramble);
        out.push(0);
        packet(sequence, &out)
    }

    /// Takes in a packet: the request first, the answer to a new scramble later.
    pub fn answer(
        &mut self,
        payload: &[u8],
        accounts: &[Account],
        switches: bool,
        random: &mut Random,
    ) -> Verdict {
        if self.request.is_some() {
            return self.judge(payload, accounts);
        }
        let Some((request, proof, native)) = parse(payload) else {
            return Verdict::Broken("a login request that cannot be read".to_owned());
        };
        if request.capabilities & (capability::COMPRESS | capability::SSL) != 0 {
            return Verdict::Broken("a login request with capabilities that were not offered".to_owned());
        }
        self.request = Some(request);
        if switches || !native {
            self.scramble = scramble(random);
            return Verdict::Switch;
        }
        self.judge(&proof, accounts)
    }

    /// The session of a login that was right.
    pub fn session(&self, kind: Kind, thread_id: u32) -> Session {
        let request = self.request.clone().expect("a verdict needs a request");
        Session::new(thread_id, &request.user, request.capabilities, request.schema, request.collation)
            .on(kind)
    }

    /// Turns a session into that of the new user.
    pub fn apply(&self, session: &mut Session, database: &mut Database, keeps_role: bool) {
        let request = self.request.clone().expect("a change of user begins with its request");
        let former = session.role.filter(|_| keeps_role);
        session.change_user(database, &request.user, request.schema, request.collation);
        session.role = session.role.or(former);
    }

    fn judge(&self, proof: &[u8], accounts: &[Account]) -> Verdict {
        let Some(request) = &self.request else {
            return Verdict::Broken("an answer without a request".to_owned());
        };
        let right = accounts
            .iter()
            .find(|account| account.user == request.user)
            .is_some_and(|account| native_token(account.password.as_bytes(), &self.scramble) == proof);
        if !right {
            let using = if proof.is_empty() { "NO" } else { "YES" };
            let message =
                format!("Access denied for user '{}'@'10.1.0.1' (using password: {using})", request.user);
            return Verdict::Wrong(ServerError::new(1045, "28000", message));
        }
        match &request.schema {
            Some(schema) if !SCHEMAS.contains(&schema.as_str()) => {
                Verdict::Wrong(ServerError::new(1049, "42000", format!("Unknown database '{schema}'")))
            }
            _ => Verdict::Right,
        }
    }
}

/// Protocol::HandshakeResponse41: the request, its proof, and whether that is one of the plugin that the server uses.
fn parse(payload: &[u8]) -> Option<(Request, Vec<u8>, bool)> {
    let mut cursor = Cursor(payload);
    let capabilities = cursor.long()?;
    cursor.long()?;
    let collation = cursor.byte()?;
    cursor.take(23)?;
    let user = text(cursor.until_nul()?);
    let proof = if capabilities & capability::PLUGIN_AUTH_LENENC != 0 {
        cursor.string()?
    } else {
        let length = cursor.byte()?;
        cursor.take(usize::from(length))?
    };
    let mut schema = None;
    if capabilities & capability::CONNECT_WITH_DB != 0 {
        schema = Some(text(cursor.until_nul()?)).filter(|schema| !schema.is_empty());
    }
    let native = capabilities & capability::PLUGIN_AUTH == 0 || cursor.until_nul()? == PLUGIN;
    Some((Request { user, schema, capabilities, collation }, proof.to_vec(), native))
}

/// Twenty printable bytes: no NUL may be among them.
fn scramble(random: &mut Random) -> [u8; 20] {
    [0; 20].map(|_: u8| b'!' + u8::try_from(random.below(90)).expect("below 90"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
