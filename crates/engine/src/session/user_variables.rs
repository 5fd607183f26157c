//! User variables with known values, because they were set to literals.

use std::collections::BTreeMap;
use std::rc::Rc;

use sql::{Assignment, Classification, Effects, LexMode, VariableUse};

use super::Charset;

/// Variables of one client that are carried; a client with more keeps its backend. What goes ahead of a statement should
/// not be larger than most statements.
const MOST_VARIABLES: usize = 32;

/// Bytes of names and literals of one client, likewise.
const MOST_BYTES: usize = 2048;

/// Expressions that make a variable NULL with the type of one that was never set: a binary string. MySQL keeps no
/// collation of an expression that is NULL.
const UNSET_ON_MARIADB: [&[u8]; 1] = [b"UNHEX(NULL)"];
const UNSET_ON_MYSQL: [&[u8]; 2] = [b"x''", b"NULL"];

/// The value that a variable was set to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// NULL, as if it had never been set.
    Unset,
    Literal(Box<[u8]>),
    /// NULL behind this literal: such a variable keeps its type and collation (MariaDB's and MySQL's item_func.cc:
    /// `Item_func_set_user_var::update_hash`).
    NullBehind(Box<[u8]>),
}

plain!(enum Value { 0 => Unset, 1 => Literal(literal), 2 => NullBehind(literal) });

impl Value {
    /// The value of a variable after a SET to this literal. `before`: the value before, if any.
    fn set(literal: &[u8], before: Option<&Self>) -> Self {
        match before {
            _ if literal != b"NULL" => Self::Literal(literal.into()),
            Some(Self::Literal(literal) | Self::NullBehind(literal)) => Self::NullBehind(literal.clone()),
            Some(Self::Unset) | None => Self::Unset,
        }
    }

    fn literal(&self) -> &[u8] {
        match self {
            Self::Unset => b"",
            Self::Literal(literal) | Self::NullBehind(literal) => literal,
        }
    }

    /// Says whether the value has the collation of the session that has set it.
    fn is_string(&self) -> bool {
        self.literal().first() == Some(&b'\'')
    }

    /// The next assignment of a `SET`.
    fn put(&self, set: &mut Vec<u8>, name: &[u8], is_mariadb: bool) {
        let mut put = |value: &[u8]| {
            set.extend_from_slice(if set.is_empty() { b"SET @" } else { b",@" });
            set.extend_from_slice(name); // letters, digits, and signs that need no quotes
            set.push(b'=');
            set.extend_from_slice(value);
        };
        match self {
            Self::Unset if is_mariadb => UNSET_ON_MARIADB.into_iter().for_each(put),
            Self::Unset => UNSET_ON_MYSQL.into_iter().for_each(put),
            Self::Literal(literal) => put(literal),
            Self::NullBehind(literal) => [&**literal, b"NULL"].into_iter().for_each(put),
        }
    }
}

/// The variables that a client has set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserVariables {
    /// The values by names in lower case.
    values: BTreeMap<Box<[u8]>, Value>,
    /// The character sets of the session that has set them: a string has the collation of that, so that equal literals need
    /// not be equal values. A client that changes them keeps its backend, see [`crate::client::Client::variables_depend_on`].
    charset: Charset,
}

plain!(struct UserVariables { values, charset });

/// The variables of a client, or those that stand on a backend; shared as long as nobody changes them.
pub(crate) type Variables = Option<Rc<UserVariables>>;

impl UserVariables {
    /// These variables with others set, in a session with these character sets. Returns `None` where that is more than is carried.
    pub(crate) fn with(mut self, sets: &[Assignment], charset: &Charset) -> Option<Self> {
        for (name, literal) in sets {
            let value = Value::set(literal, self.values.get(name));
            self.values.insert(name.clone(), value);
        }
        self.charset.clone_from(charset);
        let bytes = self.values.iter().map(|(name, value)| name.len() + value.literal().len()).sum::<usize>();
        (self.values.len() <= MOST_VARIABLES && bytes <= MOST_BYTES).then_some(self)
    }

    /// True where some of the values are strings.
    pub(crate) fn has_strings(&self) -> bool {
        self.values.values().any(Value::is_string)
    }

    /// Says whether a variable has the same value there as here.
    fn agrees(&self, other: &Self, name: &[u8], value: &Value) -> bool {
        other.values.get(name) == Some(value) && (!value.is_string() || self.charset == other.charset)
    }

    /// Bytes on the heap; the nodes of a B-tree are at least half full.
    pub(crate) fn bytes(&self) -> usize {
        let pairs = self.values.iter();
        let pair = 2 * size_of::<(Box<[u8]>, Value)>();
        pairs.map(|(name, value)| name.len() + value.literal().len() + pair).sum::<usize>()
            + self.charset.bytes()
    }
}

/// The `SET` that turns `found` into `wanted`; empty where they are equal.
pub(crate) fn difference(wanted: &Variables, found: &Variables, is_mariadb: bool) -> Vec<u8> {
    let mut set = Vec::new();
    if let (Some(wanted), Some(found)) = (wanted, found)
        && Rc::ptr_eq(wanted, found)
    {
        return set;
    }
    let none = UserVariables::default();
    let wanted = wanted.as_deref().unwrap_or(&none);
    let found = found.as_deref().unwrap_or(&none);
    for name in found.values.keys().filter(|name| !wanted.values.contains_key(*name)) {
        Value::Unset.put(&mut set, name, is_mariadb);
    }
    for (name, value) in wanted.values.iter().filter(|(name, value)| !wanted.agrees(found, name, value)) {
        value.put(&mut set, name, is_mariadb);
    }
    set
}

/// A statement's use of user variables, where they can be carried.
pub(crate) fn variable_use(statement: &Classification, text: &[u8], mode: LexMode) -> Option<VariableUse> {
    let carries = statement.effects.contains(Effects::USER_VARIABLE) && !statement.several;
    carries.then(|| sql::variable_use(text, mode)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables_in(charset: &str, pairs: &[(&str, &str)]) -> Variables {
        let boxed = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
        let sets: Vec<_> = pairs.iter().map(|(name, value)| (boxed(name), boxed(value))).collect();
        let charset = Charset::of_login(charset.as_bytes(), b"");
        Some(Rc::new(UserVariables::default().with(&sets, &charset).unwrap()))
    }

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        variables_in("utf8mb4", pairs)
    }

    fn set(wanted: &Variables, found: &Variables) -> String {
        String::from_utf8(difference(wanted, found, true)).unwrap()
    }

    #[test]
    fn what_others_left_goes_and_what_is_missing_comes() {
        let mine = variables(&[("a", "1"), ("b", "'x'")]);
        assert_eq!(set(&mine, &variables(&[("a", "1"), ("c", "2")])), "SET @c=UNHEX(NULL),@b='x'");
        assert_eq!(set(&None, &mine), "SET @a=UNHEX(NULL),@b=UNHEX(NULL)");
        assert_eq!(set(&mine, &mine.clone()), "");
        assert_eq!(set(&variables(&[("a", "NULL")]), &None), "SET @a=UNHEX(NULL)");
        assert_eq!(set(&mine, &variables(&[("a", "1"), ("b", "'x'")])), "");
    }

    #[test]
    fn null_keeps_the_type_that_a_variable_had() {
        let null = variables(&[("a", "5"), ("b", "'x'"), ("a", "NULL"), ("a", "NULL"), ("b", "NULL")]);
        assert_eq!(set(&null, &None), "SET @a=5,@a=NULL,@b='x',@b=NULL");
        assert_eq!(set(&null, &null.clone()), "");
        assert_eq!(set(&variables(&[("a", "5")]), &null), "SET @b=UNHEX(NULL),@a=5");
        assert_eq!(set(&variables(&[("a", "5"), ("a", "NULL"), ("a", "6")]), &None), "SET @a=6");
        let other = variables_in("latin1", &[("a", "5"), ("b", "'x'"), ("a", "NULL"), ("b", "NULL")]);
        assert_eq!(set(&null, &other), "SET @b='x',@b=NULL");
        let unset = variables(&[("a", "NULL"), ("a", "NULL")]);
        assert_eq!(set(&unset, &None), "SET @a=UNHEX(NULL)");
        assert_eq!(difference(&unset, &None, false), b"SET @a=x'',@a=NULL");
    }

    #[test]
    fn strings_of_another_character_set_are_others() {
        let pairs = [("a", "1"), ("b", "'x'")];
        assert_eq!(set(&variables(&pairs), &variables_in("latin1", &pairs)), "SET @b='x'");
        assert_eq!(set(&variables(&pairs[..1]), &variables_in("latin1", &pairs[..1])), "");
    }

    #[test]
    fn there_is_a_bound() {
        let pair = |number: usize| -> (Box<[u8]>, Box<[u8]>) {
            (format!("v{number}").into_bytes().into(), b"1".as_slice().into())
        };
        let charset = Charset::default();
        let many: Vec<_> = (0..=MOST_VARIABLES).map(pair).collect();
        assert!(UserVariables::default().with(&many[1..], &charset).is_some());
        assert!(UserVariables::default().with(&many, &charset).is_none());
        let long = (b"v".as_slice().into(), vec![b'1'; MOST_BYTES].into());
        assert!(UserVariables::default().with(&[long], &charset).is_none());
    }
}
