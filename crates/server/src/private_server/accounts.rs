//! The accounts of the private server: one for Onramp itself, one for whoever started it. Their passwords are random,
//! live in files that their owner alone can read, and are the same at every start.

use zeroize::Zeroizing;

use rustix::rand::{GetRandomFlags, getrandom};

use super::folder::{Folder, write_private};
use super::programs::{Flavour, Programs};

/// The account that Onramp uses.
pub(crate) const SERVICE_USER: &str = "onramp";
/// The account with all rights, for whoever started Onramp.
pub(crate) const ADMIN_USER: &str = "admin";

/// Where administrators' rights begin to have names of their own in MariaDB; before it is SUPER for all.
/// <https://mariadb.com/kb/en/grant/#connection-admin>
const NAMED_RIGHTS_SINCE: (u32, u32, u32) = (10, 5, 2);

/// The passwords of one start.
pub(crate) struct Accounts {
    /// The service account's.
    pub(crate) service_password: Zeroizing<String>,
    admin: Admin,
}

/// The administrator's account is created once; afterwards it belongs to its user, who may change or drop it.
enum Admin {
    /// Still to be created, with this password.
    New(Zeroizing<String>),
    /// Created by an earlier start with this password.
    Kept(Zeroizing<String>),
}

impl Accounts {
    /// Reads the passwords, or makes new ones.
    pub(crate) fn prepare(folder: &Folder) -> Result<Self, String> {
        let service_file = folder.password_file("service");
        let service_password = match read(&service_file)? {
            Some(password) => password,
            None => {
                let password = random_password()?;
                write_private(&service_file, &password)?;
                password
            }
        };
        let admin = match read(&folder.password_file("admin"))? {
            Some(password) => Admin::Kept(password),
            None => Admin::New(random_password()?),
        };
        Ok(Self { service_password, admin })
    }

    /// What the server runs before it takes its first client, one statement a line.
    pub(crate) fn statements(&self, programs: &Programs) -> Zeroizing<String> {
        let dialect = Dialect::of(programs);
        let mut lines = Vec::new();
        dialect.push_account(&mut lines, &format!("'{SERVICE_USER}'@'localhost'"), &self.service_password);
        // The least that does: the accounts tables, and ending the statements of clients that have gone or were killed.
        lines.push(Zeroizing::new(format!("GRANT SELECT ON mysql.* TO '{SERVICE_USER}'@'localhost';\n")));
        lines.push(Zeroizing::new(format!(
            "GRANT {} ON *.* TO '{SERVICE_USER}'@'localhost';\n",
            dialect.kill_rights
        )));
        if let Admin::New(password) = &self.admin {
            let admin = format!("'{ADMIN_USER}'@'%'");
            dialect.push_account(&mut lines, &admin, password);
            lines
                .push(Zeroizing::new(format!("GRANT ALL PRIVILEGES ON *.* TO {admin} WITH GRANT OPTION;\n")));
        }
        let mut all = Zeroizing::new(String::with_capacity(lines.iter().map(|line| line.len()).sum()));
        for line in &lines {
            all.push_str(line);
        }
        all
    }

    /// Remembers the administrator's password, now that the server has the account; returns it.
    pub(crate) fn keep(&self, folder: &Folder) -> Result<Zeroizing<String>, String> {
        match &self.admin {
            Admin::Kept(password) => Ok(password.clone()),
            Admin::New(password) => {
                write_private(&folder.password_file("admin"), password)?;
                Ok(password.clone())
            }
        }
    }
}

/// How the two families write the same.
struct Dialect {
    maria_db: bool,
    kill_rights: &'static str,
}

impl Dialect {
    fn of(programs: &Programs) -> Self {
        let maria_db = programs.flavour != Flavour::MySql;
        let kill_rights = match (maria_db, programs.numbers) {
            (true, numbers) if numbers < NAMED_RIGHTS_SINCE => "PROCESS, SUPER",
            (true, _) => "PROCESS, CONNECTION ADMIN",
            (false, (5, ..)) => "PROCESS, SUPER",
            (false, _) => "PROCESS, CONNECTION_ADMIN",
        };
        Self { maria_db, kill_rights }
    }

    /// `mysql_native_password` on both: the one login method that Onramp speaks so far.
    fn push_account(&self, lines: &mut Vec<Zeroizing<String>>, account: &str, password: &str) {
        for verb in ["CREATE USER IF NOT EXISTS", "ALTER USER"] {
            lines.push(Zeroizing::new(if self.maria_db {
                format!(
                    "{verb} {account} IDENTIFIED VIA mysql_native_password USING PASSWORD('{password}');\n"
                )
            } else {
                format!("{verb} {account} IDENTIFIED WITH mysql_native_password BY '{password}';\n")
            }));
        }
    }
}

fn read(path: &std::path::Path) -> Result<Option<Zeroizing<String>>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let text = Zeroizing::new(text);
            let password = text.trim();
            // It goes between quotes: nothing but what we ourselves write.
            if password.is_empty() || !password.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                return Err(format!(
                    "{} holds no password of ours: remove it and start again",
                    path.display()
                ));
            }
            Ok(Some(Zeroizing::new(String::from(password))))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// 192 random bits as hexadecimal digits: nothing that would need quoting anywhere.
fn random_password() -> Result<Zeroizing<String>, String> {
    let mut random = Zeroizing::new([0_u8; 24]);
    getrandom(&mut random[..], GetRandomFlags::empty())
        .map_err(|error| format!("the system has no random bytes: {error}"))?;
    let mut password = Zeroizing::new(String::with_capacity(2 * random.len()));
    for byte in random.iter() {
        for digit in [byte >> 4, byte & 15] {
            password.push(char::from_digit(u32::from(digit), 16).expect("four bits are a digit"));
        }
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(flavour: Flavour, numbers: (u32, u32, u32)) -> Programs {
        Programs { server: "/s".into(), flavour, version: String::new(), numbers, setpriv: None }
    }

    fn accounts(admin: Admin) -> Accounts {
        Accounts { service_password: Zeroizing::new(String::from("aa")), admin }
    }

    #[test]
    fn the_administrator_is_created_once() {
        let maria_db = programs(Flavour::MariaDb { install: "/i".into() }, (10, 11, 19));
        let password = || Zeroizing::new(String::from("bb"));
        let first = accounts(Admin::New(password())).statements(&maria_db);
        assert_eq!(
            first.lines().collect::<Vec<_>>(),
            [
                "CREATE USER IF NOT EXISTS 'onramp'@'localhost' IDENTIFIED VIA mysql_native_password USING PASSWORD('aa');",
                "ALTER USER 'onramp'@'localhost' IDENTIFIED VIA mysql_native_password USING PASSWORD('aa');",
                "GRANT SELECT ON mysql.* TO 'onramp'@'localhost';",
                "GRANT PROCESS, CONNECTION ADMIN ON *.* TO 'onramp'@'localhost';",
                "CREATE USER IF NOT EXISTS 'admin'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('bb');",
                "ALTER USER 'admin'@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('bb');",
                "GRANT ALL PRIVILEGES ON *.* TO 'admin'@'%' WITH GRANT OPTION;",
            ]
        );
        let later = accounts(Admin::Kept(password())).statements(&maria_db);
        assert!(!later.contains("admin"), "{}", later.as_str());
    }

    #[test]
    fn each_server_is_spoken_to_in_its_own_way() {
        let rights = |flavour, numbers| Dialect::of(&programs(flavour, numbers)).kill_rights;
        let maria_db = || Flavour::MariaDb { install: "/i".into() };
        assert_eq!(rights(maria_db(), (10, 3, 39)), "PROCESS, SUPER");
        assert_eq!(rights(maria_db(), (11, 4, 1)), "PROCESS, CONNECTION ADMIN");
        assert_eq!(rights(Flavour::MySql, (5, 7, 44)), "PROCESS, SUPER");
        assert_eq!(rights(Flavour::MySql, (8, 4, 3)), "PROCESS, CONNECTION_ADMIN");
    }

    #[test]
    fn passwords_differ_and_need_no_quoting() {
        let (one, other) = (random_password().unwrap(), random_password().unwrap());
        assert_ne!(*one, *other);
        assert_eq!(one.len(), 48);
        assert!(one.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
