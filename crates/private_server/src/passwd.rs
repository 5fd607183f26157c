//! Users of the system, from /etc/passwd: enough to run the private server as `mysql`, without the C library.

/// One line of /etc/passwd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The name.
    pub(crate) name: String,
    /// The user id.
    pub(crate) uid: u32,
    /// The primary group's id.
    pub(crate) gid: u32,
}

impl User {
    /// The user of this name, if there is one.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::find(&passwd(), |user| user.name == name)
    }

    /// The user with this id, if there is one.
    pub(crate) fn by_uid(uid: u32) -> Option<Self> {
        Self::find(&passwd(), |user| user.uid == uid)
    }

    fn find(passwd: &str, wanted: impl Fn(&Self) -> bool) -> Option<Self> {
        passwd.lines().filter_map(Self::parse).find(|user| wanted(user))
    }

    /// name:password:uid:gid:... (passwd(5))
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next().map(String::from)?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Self { name, uid, gid })
    }
}

fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_id() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\n# a remark\nmysql:x:102:105:MySQL:/nonexistent:/bin/false\n";
        let mysql = User { name: String::from("mysql"), uid: 102, gid: 105 };
        assert_eq!(User::find(passwd, |user| user.name == "mysql"), Some(mysql.clone()));
        assert_eq!(User::find(passwd, |user| user.uid == 102), Some(mysql));
        assert_eq!(User::find(passwd, |user| user.name == "nobody"), None);
    }
}
