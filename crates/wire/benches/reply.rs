//! What it costs to find the end of a reply and to relay it. `make micro` runs it.

use divan::counter::BytesCount;
use divan::{Bencher, Divan, black_box};
use wire::{
    Capabilities, ClientMetadata, Column, Expect, ReplyEvent, ReplyOptions, ReplyReader, ReplySink,
    ResultSetWriter, StatusFlags,
};

/// So many executions are timed as one: one alone is too short for the clock.
const SAMPLE: u32 = 500;

const ROWS: usize = 10;

fn main() {
    Divan::default().sample_size(SAMPLE).config_with_args().main();
}

/// Client and backend speak the same.
#[divan::bench]
fn ten_rows(bencher: Bencher<'_, '_>) {
    measure(bencher, true);
}

/// The client wants an EOF behind the column definitions, which the backend leaves out: all later packets are numbered anew.
#[divan::bench]
fn ten_rows_converted(bencher: Bencher<'_, '_>) {
    measure(bencher, false);
}

fn measure(bencher: Bencher<'_, '_>, client_deprecate_eof: bool) {
    let (reply, mut sink) = (reply(), Client::default());
    bencher.counter(BytesCount::new(reply.len())).bench_local(|| {
        sink.received.clear();
        let mut reader = ReplyReader::new(Expect::ResultSets, options(client_deprecate_eof));
        let progress = reader.read(black_box(&reply), &mut sink).expect("the reply is well-formed");
        assert!(progress.done);
        sink.received.len()
    });
}

/// A number and a text of 120 bytes in each row, as sysbench's tables have them.
fn reply() -> Vec<u8> {
    let (mut out, mut sequence) = (Vec::new(), 1);
    let columns = [Column::integer("id"), Column::text("c")];
    let mut writer = ResultSetWriter::begin(
        &mut out,
        &mut sequence,
        &columns,
        StatusFlags::AUTOCOMMIT,
        Capabilities::DEPRECATE_EOF,
    );
    for _ in 0..ROWS {
        writer.row(&[Some(b"5000"), Some(&[b'x'; 120])]);
    }
    writer.finish();
    out
}

fn options(client_deprecate_eof: bool) -> ReplyOptions {
    ReplyOptions {
        first_sequence: 1,
        backend_deprecate_eof: true,
        backend_session_track: false,
        may_open_cursor: false,
        backend_compressed: false,
        client_deprecate_eof,
        client_session_track: false,
        client_progress: false,
        client_metadata: ClientMetadata::Bare,
        skip_results: 0,
    }
}

#[derive(Default)]
struct Client {
    received: Vec<u8>,
}

impl ReplySink for Client {
    fn relay(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    fn event(&mut self, event: ReplyEvent<'_>) {
        black_box(event);
    }
}
