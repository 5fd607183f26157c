//! What the lexer costs for the statements that applications send most. `make micro` runs it.

use divan::counter::BytesCount;
use divan::{Bencher, Divan, black_box};
use sql::{LexMode, classify};

/// So many executions are timed as one: one alone is too short for the clock.
const SAMPLE: u32 = 500;

fn main() {
    Divan::default().sample_size(SAMPLE).config_with_args().main();
}

#[divan::bench]
fn point_select(bencher: Bencher<'_, '_>) {
    measure(bencher, b"SELECT c FROM sbtest1 WHERE id=5000");
}

#[divan::bench]
fn transaction_begins(bencher: Bencher<'_, '_>) {
    measure(bencher, b"BEGIN");
}

/// As drivers and frameworks send it behind each login.
#[divan::bench]
fn usual_set(bencher: Bencher<'_, '_>) {
    measure(bencher, b"SET NAMES utf8mb4, autocommit=1, sql_mode='STRICT_TRANS_TABLES'");
}

#[divan::bench]
fn insert_of_a_kilobyte(bencher: Bencher<'_, '_>) {
    let mut text = b"INSERT INTO sbtest1 (k, c, pad) VALUES (5000, '".to_vec();
    text.resize(1022, b'x');
    text.extend_from_slice(b"')");
    measure(bencher, &text);
}

fn measure(bencher: Bencher<'_, '_>, text: &[u8]) {
    bencher
        .counter(BytesCount::new(text.len()))
        .bench_local(|| classify(black_box(text), LexMode::default()));
}
