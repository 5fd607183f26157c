//! How the service account asks for the server's accounts.
//!
//! Beside what logins need, a row says with what rights new connections of its account begin, as a hash: the servers look at
//! global rights, roles and rights on the schema in use when a connection begins (or takes up a schema), and not again.

/// How much of the accounts the service account may read. (The hash is SHA2(): MySQL 9.7 has no MD5() by itself.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All that decides about rights.
    Rights,
    /// The columns that decide about logins. MariaDB's accounts hold global rights themselves, MySQL's in columns of their own.
    Logins,
}

plain!(enum Depth { 0 => Rights, 1 => Logins });

/// MariaDB since 10.4 keeps accounts as JSON (mysql.global_priv); roles have no host and cannot log in. `access` is the
/// bit mask of global privileges: SUPER is bit 15 and CONNECTION ADMIN bit 32 (privilege.h). Expired passwords are the server's
/// affair: it lets in, and refuses statements; an expired one is told by the time 0. What belongs to the password is no right:
/// those who are logged in go on by a new one. At the end stands the number of connections that the account may have at a time; the
/// server's own limit is that of accounts without one (sql_connect.cc).
macro_rules! mariadb_accounts {
    ($more:expr) => {
        concat!(
            "SELECT User, Host, JSON_VALUE(Priv, '$.plugin'), \
            JSON_VALUE(Priv, '$.authentication_string'), JSON_VALUE(Priv, '$.account_locked') <=> 1, \
            (CAST(IFNULL(JSON_VALUE(Priv, '$.access'), 0) AS UNSIGNED) & ((1 << 15) | (1 << 32))) <> 0, \
            JSON_VALUE(Priv, '$.ssl_type'), JSON_VALUE(Priv, '$.ssl_cipher'), JSON_VALUE(Priv, '$.x509_issuer'), \
            JSON_VALUE(Priv, '$.x509_subject'), 0, NULL, \
            JSON_SEARCH(Priv, 'one', 'unix_socket', NULL, '$.auth_or[*].plugin') IS NOT NULL, \
            JSON_VALUE(Priv, REPLACE(JSON_UNQUOTE(JSON_SEARCH(Priv, 'one', 'ed25519', NULL, \
            '$.auth_or[*].plugin')), '.plugin', '.authentication_string')), \
            SHA2(CONCAT_WS('/', JSON_REMOVE(Priv, '$.plugin', '$.authentication_string', \
            '$.password_last_changed', '$.auth_or'), JSON_VALUE(Priv, '$.password_last_changed') <=> 0, \
            IF(JSON_VALUE(Priv, '$.default_role') IS NULL, '', (SELECT BIT_XOR(CRC32(CONCAT_WS('/', roles.User, \
            roles.Priv))) FROM mysql.global_priv roles WHERE JSON_VALUE(roles.Priv, '$.is_role') <=> 1))",
            $more,
            "), 256), IF(IFNULL(JSON_VALUE(Priv, '$.max_user_connections'), 0) = 0, @@global.max_user_connections, \
            JSON_VALUE(Priv, '$.max_user_connections')) \
            FROM mysql.global_priv accounts WHERE NOT JSON_VALUE(Priv, '$.is_role') <=> 1"
        )
    };
}

/// The privileges of mysql.db that MySQL 5.7 and MariaDB 10.4 and all later ones have.
macro_rules! schema_privileges {
    () => {
        "Host, Db, User, Select_priv, Insert_priv, Update_priv, Delete_priv, Create_priv, Drop_priv, \
         Grant_priv, References_priv, Index_priv, Alter_priv, Create_tmp_table_priv, Lock_tables_priv, \
         Create_view_priv, Show_view_priv, Create_routine_priv, Alter_routine_priv, Execute_priv, Event_priv, \
         Trigger_priv"
    };
}

/// A sum of the rows of mysql.db.
macro_rules! rights_on_schemas {
    ($of:expr) => {
        concat!("(SELECT BIT_XOR(CRC32(CONCAT_WS('/', ", schema_privileges!(), "))) FROM mysql.db", $of, ")")
    };
}

/// The rights on schemas of an account, and those of these users, which are everybody's. They are two questions: the servers look the first one
/// up by the key on User, and answer the second once for all accounts. As one they read the whole table for each account, which for 10,000
/// accounts takes longer than anybody waits.
macro_rules! schema_rights {
    ($everybody:expr) => {
        concat!(
            ", ",
            rights_on_schemas!(" WHERE User = accounts.User"),
            ", ",
            rights_on_schemas!(concat!(" WHERE User IN (", $everybody, ")"))
        )
    };
}

const MARIADB_ACCOUNTS: &str = mariadb_accounts!("");

const MARIADB_ACCOUNTS_AND_RIGHTS: &str = mariadb_accounts!(concat!(
    schema_rights!("'', 'PUBLIC'"),
    ", IF(JSON_VALUE(Priv, '$.default_role') IS NULL, '', ",
    rights_on_schemas!(""),
    "), IF(JSON_VALUE(Priv, '$.default_role') IS NULL, '', \
     (SELECT BIT_XOR(CRC32(CONCAT_WS('/', Host, User, Role))) FROM mysql.roles_mapping))"
));

/// Changes whenever an account does. Two sums that are made in different ways, so that a change which keeps both is not to be
/// expected in the age of the universe.
macro_rules! mariadb_probe {
    ($more:expr) => {
        concat!(
            "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('/', User, Host, Priv))), \
             BIT_XOR(CRC32(CONCAT_WS(':', Priv, Host, User))), @@global.max_user_connections",
            $more,
            " FROM mysql.global_priv"
        )
    };
}

const MARIADB_PROBE: &str = mariadb_probe!("");

const MARIADB_PROBE_OF_RIGHTS: &str = mariadb_probe!(concat!(
    ", (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', ",
    schema_privileges!(),
    ")))) FROM mysql.db), (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', Host, User, Role)))) \
     FROM mysql.roles_mapping)"
));

/// The columns of mysql.user that both the accounts and the probe are made of.
macro_rules! mysql_expired {
    () => {
        "(password_expired = 'Y' \
            OR IFNULL(password_lifetime, @@global.default_password_lifetime) > 0 AND password_last_changed < NOW() \
            - INTERVAL IFNULL(password_lifetime, @@global.default_password_lifetime) DAY) \
            AND @@global.disconnect_on_expired_password"
    };
}

/// The rights of a row of mysql.user, in all versions. An expired password lets in to nothing but its change, where it lets in.
macro_rules! mysql_privileges {
    () => {
        "Select_priv, Insert_priv, Update_priv, Delete_priv, Create_priv, Drop_priv, Reload_priv, Shutdown_priv, \
         Process_priv, File_priv, Grant_priv, References_priv, Index_priv, Alter_priv, Show_db_priv, Super_priv, \
         Create_tmp_table_priv, Lock_tables_priv, Execute_priv, Repl_slave_priv, Repl_client_priv, Create_view_priv, \
         Show_view_priv, Create_routine_priv, Alter_routine_priv, Create_user_priv, Event_priv, Trigger_priv, \
         Create_tablespace_priv, max_questions, max_updates, max_connections, max_user_connections, \
         password_expired, ssl_type"
    };
}

/// The columns that only MySQL 8 has. The second password stands in the same JSON as partial revokes; no right depends on it, so it is
/// left out.
macro_rules! mysql_8_privileges {
    () => {
        "Create_role_priv, Drop_role_priv, IFNULL(JSON_REMOVE(User_attributes, '$.additional_password'), '')"
    };
}

/// The right to KILL: 1 for SUPER or CONNECTION_ADMIN, and 2 more for SYSTEM_USER, without which nobody may kill a connection of
/// such a user (MySQL's kill_one_thread). Rights that come by roles are not followed.
macro_rules! mysql_kills {
    () => {
        "(Super_priv = 'Y' OR EXISTS (SELECT 1 FROM mysql.global_grants k WHERE k.USER = accounts.User \
          AND k.HOST = accounts.Host AND k.PRIV = 'CONNECTION_ADMIN')) + 2 * EXISTS (SELECT 1 FROM mysql.global_grants k \
          WHERE k.USER = accounts.User AND k.HOST = accounts.Host AND k.PRIV = 'SYSTEM_USER')"
    };
}

/// The connections that an account may have at a time, as in MariaDB.
macro_rules! mysql_connections {
    () => {
        ", IF(max_user_connections = 0, @@global.max_user_connections, max_user_connections)"
    };
}

macro_rules! mysql_accounts {
    ($kills:expr, $second:expr, $rights:expr, $beside:expr) => {
        concat!(
            "SELECT User, Host, plugin, authentication_string, account_locked = 'Y', ",
            $kills,
            ", ssl_type, ssl_cipher, x509_issuer, x509_subject, ",
            mysql_expired!(),
            ", ",
            $second,
            ", NULL, NULL, ",
            $rights,
            " FROM mysql.user accounts",
            $beside
        )
    };
}

macro_rules! additional_password {
    () => {
        "JSON_UNQUOTE(JSON_EXTRACT(User_attributes, '$.additional_password'))"
    };
}

/// MySQL since 8.0.14, which knows a second password while clients move to a new one.
const MYSQL_ACCOUNTS: &str = mysql_accounts!("Super_priv = 'Y'", additional_password!(), "NULL", "");

const MYSQL_ACCOUNTS_AND_RIGHTS: &str = mysql_accounts!(
    mysql_kills!(),
    additional_password!(),
    concat!(
        "SHA2(CONCAT_WS('/', ",
        mysql_privileges!(),
        ", ",
        mysql_8_privileges!(),
        schema_rights!("''"),
        ", (SELECT BIT_XOR(CRC32(CONCAT_WS('/', g.PRIV, g.WITH_GRANT_OPTION))) FROM mysql.global_grants g \
          WHERE g.USER = accounts.User AND g.HOST = accounts.Host), \
         (SELECT BIT_XOR(CRC32(CONCAT_WS('/', d.DEFAULT_ROLE_USER, d.DEFAULT_ROLE_HOST))) FROM mysql.default_roles d \
          WHERE d.USER = accounts.User AND d.HOST = accounts.Host), e.roles), 256)",
        mysql_connections!()
    ),
    // The table has no key on these two: summed once, it is not read whole for each account.
    " LEFT JOIN (SELECT TO_USER, TO_HOST, BIT_XOR(CRC32(CONCAT_WS('/', FROM_USER, FROM_HOST))) AS roles \
     FROM mysql.role_edges GROUP BY TO_USER, TO_HOST) e ON e.TO_USER = accounts.User AND e.TO_HOST = accounts.Host"
);

macro_rules! mysql_probe {
    ($more:expr) => {
        concat!(
            "SELECT COUNT(*), SUM(CRC32(CONCAT_WS('/', User, Host, plugin, authentication_string, account_locked, \
                Super_priv, ",
            mysql_expired!(),
            ", ssl_type, x509_issuer, x509_subject, ssl_cipher, User_attributes))), \
                BIT_XOR(CRC32(CONCAT_WS(':', authentication_string, account_locked, ssl_type, User_attributes, Host, \
                User)))",
            $more,
            " FROM mysql.user"
        )
    };
}

const MYSQL_PROBE: &str = mysql_probe!("");

const MYSQL_PROBE_OF_RIGHTS: &str = mysql_probe!(concat!(
    ", SUM(CRC32(CONCAT_WS('/', User, Host, ",
    mysql_privileges!(),
    ", ",
    mysql_8_privileges!(),
    "))), @@global.max_user_connections, (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', ",
    schema_privileges!(),
    ")))) FROM mysql.db), \
     (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', USER, HOST, PRIV, WITH_GRANT_OPTION)))) \
      FROM mysql.global_grants), \
     (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', USER, HOST, DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST)))) \
      FROM mysql.default_roles), \
     (SELECT CONCAT_WS('/', COUNT(*), SUM(CRC32(CONCAT_WS('/', FROM_USER, FROM_HOST, TO_USER, TO_HOST)))) \
      FROM mysql.role_edges)"
));

/// MySQL 5.7, which has no second passwords and no roles.
const MYSQL_57_ACCOUNTS: &str = mysql_accounts!("Super_priv = 'Y'", "NULL", "NULL", "");

const MYSQL_57_ACCOUNTS_AND_RIGHTS: &str = mysql_accounts!(
    "Super_priv = 'Y'",
    "NULL",
    concat!(
        "SHA2(CONCAT_WS('/', ",
        mysql_privileges!(),
        schema_rights!("''"),
        "), 256)",
        mysql_connections!()
    ),
    ""
);

/// The server's counts of statements that change accounts, with the names of both servers. A server counts a statement before it
/// executes it. MariaDB's SET DEFAULT ROLE is among all other SETs.
macro_rules! changes {
    ($question:expr) => {
        concat!(
            $question,
            " IN ('Com_grant', 'Com_grant_role', 'Com_grant_roles', 'Com_revoke', 'Com_revoke_all', 'Com_revoke_role', \
             'Com_revoke_roles', 'Com_create_user', 'Com_alter_user', 'Com_alter_user_default_role', 'Com_rename_user', \
             'Com_drop_user', 'Com_create_role', 'Com_drop_role', 'Com_flush')"
        )
    };
}

/// The question how many statements have changed accounts, or have had the servers read their tables (FLUSH PRIVILEGES). Nobody
/// needs a right for it. MySQL's tables of its status have none of these counters.
pub(crate) fn changes(is_mariadb: bool) -> &'static str {
    if is_mariadb {
        changes!("SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME")
    } else {
        changes!("SHOW GLOBAL STATUS WHERE Variable_name")
    }
}

/// The question for all accounts.
pub(crate) fn accounts(is_mariadb: bool, major_version: u32, depth: Depth) -> &'static str {
    match (is_mariadb, major_version >= 8, depth) {
        (true, _, Depth::Rights) => MARIADB_ACCOUNTS_AND_RIGHTS,
        (true, _, Depth::Logins) => MARIADB_ACCOUNTS,
        (false, true, Depth::Rights) => MYSQL_ACCOUNTS_AND_RIGHTS,
        (false, true, Depth::Logins) => MYSQL_ACCOUNTS,
        (false, false, Depth::Rights) => MYSQL_57_ACCOUNTS_AND_RIGHTS,
        (false, false, Depth::Logins) => MYSQL_57_ACCOUNTS,
    }
}

/// The question that is asked again and again: has any account changed? Where there is no such question, it asks for the
/// accounts.
pub(crate) fn probe(is_mariadb: bool, major_version: u32, depth: Depth) -> &'static str {
    match (is_mariadb, major_version >= 8, depth) {
        (true, _, Depth::Rights) => MARIADB_PROBE_OF_RIGHTS,
        (true, _, Depth::Logins) => MARIADB_PROBE,
        (false, true, Depth::Rights) => MYSQL_PROBE_OF_RIGHTS,
        (false, true, Depth::Logins) => MYSQL_PROBE,
        (false, false, _) => accounts(is_mariadb, major_version, depth),
    }
}
