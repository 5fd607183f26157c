//! A virtual client's half of the handshake.

use crate::accounts::Choices;
use crate::protocol::{Cursor, capability, native_token, put_string};
use crate::random::Random;
use crate::server::database::SCHEMAS;
use crate::server::kind::Kind;

/// Who a client says it is.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
    /// The default schema.
    pub schema: Option<String>,
    /// The collation's id.
    pub collation: u8,
    /// Whether the server must refuse it.
    pub wrong: bool,
}

impl Credentials {
    /// Draws an account, now and then with a mistake unless `right` is asked for.
    pub fn draw(choices: &Choices, right: bool, random: &mut Random) -> Self {
        let account = choices.pick(&choices.accounts, random).clone();
        let schema = random.percent(70).then(|| (*choices.pick(&SCHEMAS, random)).to_owned());
        // 255 is a collation of MySQL 8 that MariaDB does not know: the server's default stands in for it.
        let collation = *choices.pick(&[8, 33, 45, 45, 45, 224, 255], random);
        let mut drawn =
            Self { user: account.user, password: account.password, schema, collation, wrong: false };
        if !right && random.percent(8) {
            drawn.wrong = true;
            match random.below(3) {
                0 => drawn.password.push('x'),
                1 => drawn.user.push('x'),
                _ => drawn.schema = Some("missing_schema".to_owned()),
            }
        }
        drawn
    }
}

/// A login under way.
#[derive(Clone, Debug)]
pub struct LoginRequest {
    /// Whose server it is, by the greeting.
    pub kind: Kind,
    /// The connection's id, from the greeting.
    pub thread_id: u32,
    /// What both sides can do.
    pub capabilities: u32,
    /// Who.
    pub credentials: Credentials,
    /// When it was sent.
    pub sent_at: u64,
    scramble: Vec<u8>,
    /// Says that it uses a plugin of MySQL 8, and must be asked to change to another.
    other_plugin: bool,
}

impl LoginRequest {
    /// The answer at this time to a greeting; `None` where that is malformed.
    pub fn new(
        sent_at: u64,
        greeting: &[u8],
        choices: &Choices,
        right: bool,
        random: &mut Random,
    ) -> Option<Self> {
        let mut cursor = Cursor(greeting);
        if cursor.byte()? != 10 {
            return None;
        }
        let kind = Kind::of_version(cursor.until_nul()?);
        let thread_id = cursor.long()?;
        let mut scramble = cursor.take(8)?.to_vec();
        cursor.byte()?;
        let low = cursor.short()?;
        cursor.take(3)?;
        let high = cursor.short()?;
        cursor.take(1 + 6 + 4)?;
        scramble.extend_from_slice(cursor.take(12)?);
        let offered = u32::from(high) << 16 | u32::from(low);
        let credentials = Credentials::draw(choices, right, random);
        let mut capabilities = draw_capabilities(random, credentials.schema.is_some()) & (offered | 1);
        if choices.is_unlike(random) {
            // Nobody here calls procedures, for which alone it matters.
            capabilities &= !capability::PS_MULTI_RESULTS;
        }
        let other_plugin = random.percent(15);
        Some(Self { kind, thread_id, capabilities, credentials, sent_at, scramble, other_plugin })
    }

    /// Protocol::HandshakeResponse41.
    pub fn payload(&self) -> Vec<u8> {
        let mut out = self.capabilities.to_le_bytes().to_vec();
        out.extend_from_slice(&(16u32 << 20).to_le_bytes());
        out.push(self.credentials.collation);
        out.extend_from_slice(&[0; 23]);
        out.extend_from_slice(self.credentials.user.as_bytes());
        out.push(0);
        let plugin_named = self.capabilities & capability::PLUGIN_AUTH != 0;
        let proof = if self.other_plugin && plugin_named {
            vec![0x11; 32] // as long as caching_sha2_password's
        } else {
            native_token(self.credentials.password.as_bytes(), &self.scramble)
        };
        put_string(&mut out, &proof); // short enough to read the same with one byte of length
        if self.capabilities & capability::CONNECT_WITH_DB != 0 {
            out.extend_from_slice(self.credentials.schema.as_deref().unwrap_or("").as_bytes());
            out.push(0);
        }
        if plugin_named {
            let plugin: &[u8] =
                if self.other_plugin { b"caching_sha2_password\0" } else { b"mysql_native_password\0" };
            out.extend_from_slice(plugin);
        }
        if self.capabilities & capability::CONNECT_ATTRS != 0 {
            let mut attributes = Vec::new();
            put_string(&mut attributes, b"program_name");
            put_string(&mut attributes, b"simulator");
            put_string(&mut out, &attributes);
        }
        out
    }

    /// The answer to Protocol::AuthSwitchRequest; `None` for a plugin that the client does not know.
    pub fn switch(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut cursor = Cursor(payload.get(1..)?);
        if cursor.until_nul()? != b"mysql_native_password" {
            return None;
        }
        self.scramble = cursor.take(20)?.to_vec();
        Some(native_token(self.credentials.password.as_bytes(), &self.scramble))
    }
}

/// What all drivers have, and what only some have.
fn draw_capabilities(random: &mut Random, schema: bool) -> u32 {
    let mut capabilities = 1
        | capability::PROTOCOL_41
        | capability::TRANSACTIONS
        | capability::SECURE_CONNECTION
        | capability::MULTI_RESULTS
        | capability::PS_MULTI_RESULTS
        | capability::LOCAL_FILES;
    if schema {
        capabilities |= capability::CONNECT_WITH_DB;
    }
    for (flag, percent) in [
        (capability::MULTI_STATEMENTS, 70),
        (capability::PLUGIN_AUTH, 90),
        (capability::PLUGIN_AUTH_LENENC, 70),
        (capability::CONNECT_ATTRS, 60),
        (capability::SESSION_TRACK, 30),
        (capability::DEPRECATE_EOF, 60),
    ] {
        if random.percent(percent) {
            capabilities |= flag;
        }
    }
    capabilities
}
