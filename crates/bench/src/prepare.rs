//! `prepare`, `cleanup` and `check`: the tables of sysbench 1.0.20's oltp_common.lua, and those of the ledger.

use seam::Address;

use crate::distribution::{Distribution, Random};
use crate::errors::Failure;
use crate::options::TableOptions;
use crate::print;
use crate::script::{Answers, Stage, execute};
use crate::workload::Tables;
use crate::workload::encode::put_integer;
use login::Credentials;

/// Rows in one INSERT: with at most 225 bytes each, under the 1 MB that the oldest servers take by default
/// (`max_allowed_packet`).
pub const ROWS_PER_INSERT: u32 = 4_500;

/// Connections that insert. More gain little on the server's side and would make a burst of load of it.
const CONNECTIONS: usize = 4;

/// What each account begins with.
pub const INITIAL_BALANCE: u64 = 1_000;

/// ER_DBACCESS_DENIED_ERROR: the account may use the schema, but not create it.
const MAY_NOT_CREATE: &[u16] = &[1044];

/// Creates and fills the tables. An existing table is an error, as with sysbench.
///
/// # Errors
/// What the server said.
pub fn prepare(
    options: &TableOptions,
    address: &Address,
    credentials: &Credentials,
    seed: u64,
) -> Result<(), Failure> {
    let schema = quoted(&options.server.db);
    let mut stages = vec![Stage {
        tolerated: MAY_NOT_CREATE,
        ..Stage::single(format!("CREATE DATABASE IF NOT EXISTS {schema}"))
    }];
    match options.workload().tables() {
        Tables::None => print(&format!("{} needs no tables\n", options.workload().name())),
        Tables::Sbtest => stages.extend(sbtest_stages(options, &schema, seed)),
        Tables::Ledger => stages.extend(ledger_stages(options.table_size, &schema)),
    }
    execute(address, credentials, CONNECTIONS, stages)?;
    match options.workload().tables() {
        Tables::None => Ok(()),
        Tables::Sbtest => {
            let tables = if options.tables == 1 { "table is" } else { "tables are" };
            print(&format!("{} {tables} ready, of {} rows each\n", options.tables, options.table_size));
            Ok(())
        }
        Tables::Ledger => {
            let ledger = read_ledger(&schema, address, credentials)?;
            print(&format!("{} accounts are ready, sum of balances {}\n", ledger.accounts, ledger.sum));
            Ok(())
        }
    }
}

/// Drops the tables, where they are there.
///
/// # Errors
/// What the server said.
pub fn cleanup(options: &TableOptions, address: &Address, credentials: &Credentials) -> Result<(), Failure> {
    let schema = quoted(&options.server.db);
    let drops = match options.workload().tables() {
        Tables::None => Vec::new(),
        Tables::Sbtest => {
            let schema = schema.clone();
            vec![numbered_stage(options.tables, "DROP TABLE IF EXISTS ", move |number| {
                format!("{schema}.sbtest{number}")
            })]
        }
        Tables::Ledger => vec![
            Stage::single(format!("DROP TABLE IF EXISTS {schema}.ledger_marker")),
            Stage::single(format!("DROP TABLE IF EXISTS {schema}.ledger")),
        ],
    };
    execute(address, credentials, CONNECTIONS, drops)?;
    print(&format!("the tables of {} are gone\n", options.workload().name()));
    Ok(())
}

/// Compares the ledger's sum with what `prepare` put in, and prints both. True where they agree.
///
/// # Errors
/// What the server said.
pub fn check(schema: &str, address: &Address, credentials: &Credentials) -> Result<bool, Failure> {
    let ledger = read_ledger(&quoted(schema), address, credentials)?;
    let expected = u128::from(ledger.accounts) * u128::from(INITIAL_BALANCE);
    let agrees = ledger.sum == expected.to_string();
    print(&format!(
        "ledger: {} accounts, {} transfers, sum of balances {}, expected {expected}: {}\n",
        ledger.accounts,
        ledger.transfers,
        ledger.sum,
        if agrees { "agrees" } else { "DOES NOT AGREE" }
    ));
    Ok(agrees)
}

struct Ledger {
    /// As the server writes it: SUM() is a DECIMAL.
    sum: String,
    accounts: u64,
    transfers: u64,
}

fn read_ledger(schema: &str, address: &Address, credentials: &Credentials) -> Result<Ledger, Failure> {
    let stages = vec![
        Stage::single(format!("SELECT SUM(balance) FROM {schema}.ledger")),
        Stage::single(format!("SELECT COUNT(*) FROM {schema}.ledger")),
        Stage::single(format!("SELECT COUNT(*) FROM {schema}.ledger_marker")),
    ];
    let answers = execute(address, credentials, 1, stages)?;
    let count = |answers: &Answers, statement| {
        answers.text(statement).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    Ok(Ledger {
        sum: answers.text(0).unwrap_or_else(|| "0".to_owned()),
        accounts: count(&answers, 1),
        transfers: count(&answers, 2),
    })
}

fn sbtest_stages<'a>(options: &TableOptions, schema: &str, seed: u64) -> Vec<Stage<'a>> {
    let rows = options.table_size;
    let chunks = u64::from(rows.div_ceil(ROWS_PER_INSERT));
    let table = |schema: &str| {
        let schema = schema.to_owned();
        move |number: u64| format!("{schema}.sbtest{number}")
    };
    let created = table(schema);
    let inserted = table(schema);
    let indexed = table(schema);
    let keys = Distribution::new(options.shape(), rows);
    vec![
        numbered_stage(options.tables, "CREATE TABLE ", move |number| {
            format!(
                "{}(\n  id INTEGER NOT NULL AUTO_INCREMENT,\n  k INTEGER DEFAULT '0' NOT NULL,\n  \
                 c CHAR(120) DEFAULT '' NOT NULL,\n  pad CHAR(60) DEFAULT '' NOT NULL,\n  PRIMARY KEY (id)\n) \
                 /*! ENGINE = innodb */",
                created(number)
            )
        }),
        Stage {
            title: Some("inserting rows"),
            statements: u64::from(options.tables) * chunks,
            units: u64::from(ROWS_PER_INSERT),
            total_units: u64::from(options.tables) * u64::from(rows),
            text: Box::new(move |statement, out| {
                let (number, chunk) = (1 + statement / chunks, (statement % chunks) as u32);
                out.extend_from_slice(b"INSERT INTO ");
                out.extend_from_slice(inserted(number).as_bytes());
                put_rows(out, &mut Random::new(seed.wrapping_add(statement)), &keys, chunk);
            }),
            tolerated: &[],
        },
        Stage {
            title: Some("building indexes"),
            ..numbered_stage(options.tables, "CREATE INDEX ", move |number| {
                format!("k_{number} ON {}(k)", indexed(number))
            })
        },
    ]
}

/// The rows of one INSERT, with their ids: a server that counts in larger steps (`auto_increment_increment`) gets the
/// same rows.
fn put_rows(out: &mut Vec<u8>, random: &mut Random, keys: &Distribution, chunk: u32) {
    out.extend_from_slice(b" (id, k, c, pad) VALUES");
    let first = chunk * ROWS_PER_INSERT + 1;
    let last = keys.rows().min(first + (ROWS_PER_INSERT - 1));
    for id in first..=last {
        out.extend_from_slice(if id == first { b"(" } else { b",(" });
        put_integer(out, i64::from(id));
        out.push(b',');
        put_integer(out, i64::from(keys.draw(random)));
        out.extend_from_slice(b",'");
        random.put_digit_groups(out, 10);
        out.extend_from_slice(b"','");
        random.put_digit_groups(out, 5);
        out.extend_from_slice(b"')");
    }
}

fn ledger_stages<'a>(accounts: u32, schema: &str) -> Vec<Stage<'a>> {
    let insert = format!("INSERT INTO {schema}.ledger (id, balance) VALUES");
    vec![
        Stage::single(format!(
            "CREATE TABLE {schema}.ledger(id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, \
             writer BIGINT NOT NULL DEFAULT 0) ENGINE = innodb"
        )),
        Stage::single(format!(
            "CREATE TABLE {schema}.ledger_marker(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
             writer BIGINT NOT NULL) ENGINE = innodb"
        )),
        Stage {
            title: Some("opening accounts"),
            statements: u64::from(accounts.div_ceil(ROWS_PER_INSERT)),
            units: u64::from(ROWS_PER_INSERT),
            total_units: u64::from(accounts),
            text: Box::new(move |statement, out| {
                out.extend_from_slice(insert.as_bytes());
                let first = statement as u32 * ROWS_PER_INSERT + 1;
                for id in first..=accounts.min(first + (ROWS_PER_INSERT - 1)) {
                    out.extend_from_slice(if id == first { b"(" } else { b",(" });
                    put_integer(out, i64::from(id));
                    out.push(b',');
                    put_integer(out, INITIAL_BALANCE as i64);
                    out.push(b')');
                }
            }),
            tolerated: &[],
        },
    ]
}

/// One statement for each table, numbered from 1.
fn numbered_stage<'a>(tables: u32, verb: &'static str, object: impl Fn(u64) -> String + 'a) -> Stage<'a> {
    Stage {
        title: None,
        statements: u64::from(tables),
        units: 1,
        total_units: u64::from(tables),
        text: Box::new(move |statement, out| {
            out.extend_from_slice(verb.as_bytes());
            out.extend_from_slice(object(statement + 1).as_bytes());
        }),
        tolerated: &[],
    }
}

/// A name as an identifier.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Shape;

    #[test]
    fn an_insert_stays_under_a_megabyte() {
        let keys = Distribution::new(Shape::Uniform, 2_000_000_000);
        let mut out = Vec::new();
        put_rows(&mut out, &mut Random::new(1), &keys, 2_000_000_000 / ROWS_PER_INSERT - 1);
        assert!(out.len() > 900_000 && out.len() < 1_000_000, "{}", out.len());
    }

    #[test]
    fn chunks_hold_every_row_once() {
        let rows = 2 * ROWS_PER_INSERT + 7;
        let keys = Distribution::new(Shape::Special, rows);
        let mut ids = Vec::new();
        for chunk in 0..rows.div_ceil(ROWS_PER_INSERT) {
            let mut out = Vec::new();
            put_rows(&mut out, &mut Random::new(1), &keys, chunk);
            let text = String::from_utf8(out).unwrap();
            ids.extend(
                text.split('(').skip(2).map(|row| row.split(',').next().unwrap().parse::<u32>().unwrap()),
            );
        }
        assert_eq!(ids, (1..=rows).collect::<Vec<_>>());
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("sb`test"), "`sb``test`");
    }
}
