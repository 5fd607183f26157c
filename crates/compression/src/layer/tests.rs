//! The layer around a program that sends back what it hears.

use seam::Compression;

use super::*;

/// Sends back what it hears, and can be told to pause.
#[derive(Default)]
struct Echo {
    sends: VecDeque<Vec<u8>>,
    orders: VecDeque<Order>,
    current: Vec<u8>,
    heard: usize,
    pause_at: Option<usize>,
    closed: bool,
}

#[derive(Clone, Copy)]
enum Order {
    Start,
    Pause,
    Resume,
}

const CONNECTION: ConnectionId = ConnectionId { index: 4, generation: 2 };

impl Program for Echo {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            Input::Bytes { bytes, .. } => {
                self.heard += bytes.len();
                self.sends.push_back(bytes.to_vec());
                if self.pause_at.is_some_and(|limit| self.heard >= limit) {
                    self.pause_at = None;
                    self.orders.push_back(Order::Pause);
                }
            }
            Input::Closed { .. } => self.closed = true,
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        let connection = CONNECTION;
        match self.orders.pop_front() {
            Some(Order::Start) => {
                return Some(Output::StartCompression { connection, compression: Compression::Zlib });
            }
            Some(Order::Pause) => return Some(Output::PauseReading { connection }),
            Some(Order::Resume) => return Some(Output::ResumeReading { connection }),
            None => {}
        }
        self.current = self.sends.pop_front()?;
        Some(Output::Send { connection, bytes: &self.current })
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}

fn started() -> Compressed<Echo> {
    let mut layer = Compressed::new(Echo::default());
    layer.inner.orders.push_back(Order::Start);
    assert!(turn(&mut layer, &[]).0.is_empty());
    layer
}

/// One turn with these bytes: what was sent, and whether it was closed.
fn turn(layer: &mut Compressed<Echo>, bytes: &[u8]) -> (Vec<u8>, bool) {
    if !bytes.is_empty() {
        layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes });
    }
    layer.handle(Instant::START, Input::TurnEnd);
    let (mut sent, mut closed) = (Vec::new(), false);
    while let Some(output) = layer.poll_output() {
        match output {
            Output::Send { bytes, .. } => sent.extend_from_slice(bytes),
            Output::Close { .. } => closed = true,
            Output::PauseReading { .. } | Output::ResumeReading { .. } => {}
            other => panic!("a driver knows nothing of {other:?}"),
        }
    }
    (sent, closed)
}

fn packed(packets: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Codec::new().put(Compression::Zlib, &mut 0, packets, &mut out);
    out
}

/// One packet of 60,000 zeros.
fn command() -> Vec<u8> {
    [&[0x60, 0xea, 0, 0][..], &[0; 60_000]].concat()
}

#[test]
fn what_is_said_comes_back() {
    let mut layer = started();
    let (sent, _) = turn(&mut layer, &packed(&command()));
    let mut peer = Stream::new(Compression::Zlib);
    peer.keep(&sent);
    let mut plain = Vec::new();
    peer.open(&mut Codec::new(), usize::MAX, &mut plain).unwrap();
    assert_eq!(plain, command());
    assert!(sent.len() < 1000);
}

#[test]
fn others_pass_through() {
    let mut layer = Compressed::new(Echo::default());
    assert_eq!(turn(&mut layer, b"plain"), (b"plain".to_vec(), false));
}

#[test]
fn few_bytes_that_become_many_come_in_turns_and_stop_at_a_pause() {
    let mut layer = started();
    let bomb: Vec<u8> = (0..100).flat_map(|_| packed(&command())).collect();
    layer.inner.pause_at = Some(1_000_000);
    turn(&mut layer, &bomb);
    let first = layer.inner.heard;
    assert!(first <= 2 * OPENED_PER_TURN + 120_008, "{first}");
    while layer.next_timeout().is_some() {
        turn(&mut layer, &[]);
    }
    let paused = layer.inner.heard;
    assert!((1_000_000..2_000_000).contains(&paused), "{paused}");
    layer.inner.orders.push_back(Order::Resume);
    turn(&mut layer, &[]);
    while layer.next_timeout().is_some() {
        turn(&mut layer, &[]);
    }
    assert_eq!(layer.inner.heard, 100 * 60_004);
}

#[test]
fn what_cannot_be_opened_ends_the_connection() {
    let mut layer = started();
    let mut bytes = packed(&command());
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let (sent, closed) = turn(&mut layer, &bytes);
    assert!(closed && sent.is_empty() && layer.inner.closed && layer.inner.heard == 0);
}
