//! The layer around a program that sends back what it hears.

use seam::{Compression, CompressionSide};

use super::*;

/// Sends back what it hears, and can be told to pause.
#[derive(Default)]
struct Echo {
    sends: VecDeque<Vec<u8>>,
    orders: VecDeque<Order>,
    current: Vec<u8>,
    heard: usize,
    pause_at: Option<usize>,
    closed: usize,
}

#[derive(Clone, Copy)]
enum Order {
    Start,
    /// With a server.
    StartAsClient,
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
            Input::Closed { .. } => self.closed += 1,
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        let connection = CONNECTION;
        match self.orders.pop_front() {
            Some(Order::Start) => {
                return Some(Output::StartCompression {
                    connection,
                    compression: Compression::Zlib,
                    side: CompressionSide::Server,
                });
            }
            Some(Order::StartAsClient) => {
                return Some(Output::StartCompression {
                    connection,
                    compression: Compression::Zlib,
                    side: CompressionSide::Client,
                });
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
    let mut layer = Compressed::new(Echo::default(), Rc::default(), usize::MAX);
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
    let mut peer = Stream::new(Compression::Zlib, CompressionSide::Client);
    peer.keep(&sent);
    let mut plain = Vec::new();
    peer.open(&mut Codec::new(), usize::MAX, &mut plain).unwrap();
    assert_eq!(plain, command());
    assert!(sent.len() < 1000);
}

#[test]
fn others_pass_through() {
    let mut layer = Compressed::new(Echo::default(), Rc::default(), usize::MAX);
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
    assert!(closed && sent.is_empty() && layer.inner.closed == 1 && layer.inner.heard == 0);
}

/// Who sends faster than its packets are opened is not read from meanwhile, and what is held of it is counted.
#[test]
fn what_waits_is_bounded() {
    let held = Rc::new(Cell::new(0));
    let program = Echo { orders: VecDeque::from([Order::Start]), ..Echo::default() };
    let mut layer = Compressed::new(program, held.clone(), usize::MAX);
    turn(&mut layer, &[]);
    let idle = held.get();
    assert_eq!(idle, size_of::<Entry>());
    let bytes: Vec<u8> = (0..6).flat_map(|_| packed(&noise())).collect();
    let (mut sent, mut shut, mut valves) = (0, false, Vec::new());
    while sent < 72 || layer.next_timeout().is_some() {
        for _ in 0..if shut || sent == 72 { 0 } else { 3 } {
            sent += 6;
            layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes: &bytes });
        }
        layer.handle(Instant::START, Input::TurnEnd);
        while let Some(output) = layer.poll_output() {
            match output {
                Output::PauseReading { .. } => valves.push(true),
                Output::ResumeReading { .. } => valves.push(false),
                _ => {}
            }
        }
        shut = valves.last().copied().unwrap_or(false);
        // What one turn brought, in a vector that may be twice as large.
        assert!(held.get() <= 2 * 3 * bytes.len() + idle, "{}", held.get());
    }
    assert_eq!(layer.inner.heard, 72 * 60_004);
    assert_eq!(valves, [true, false].repeat(4));
    assert_eq!(held.get(), idle);
    let reason = CloseReason::EndOfStream;
    layer.handle(Instant::START, Input::Closed { connection: CONNECTION, reason });
    assert_eq!(held.get(), 0);
}

/// One packet of 60,000 bytes that do not become smaller.
fn noise() -> Vec<u8> {
    let mut state = 1_u32;
    let bytes = (0..60_000).map(|_| {
        // The generator of ISO C's example.
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        state.to_le_bytes()[2]
    });
    [0x60, 0xea, 0, 0].into_iter().chain(bytes).collect()
}

/// A program that wants to hear more does not open what the layer has shut.
#[test]
fn two_reasons_to_read_no_more() {
    let mut layer = started();
    layer.inner.pause_at = Some(1);
    let bytes: Vec<u8> = (0..12).flat_map(|_| packed(&noise())).collect();
    let asked = |layer: &mut Compressed<Echo>, bytes: &[u8], order: Option<Order>| {
        layer.inner.orders.extend(order);
        for piece in bytes.chunks(bytes.len().div_ceil(2).max(1)) {
            layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes: piece });
        }
        layer.handle(Instant::START, Input::TurnEnd);
        let mut asked = String::new();
        while let Some(output) = layer.poll_output() {
            match output {
                Output::PauseReading { .. } => asked.push('p'),
                Output::ResumeReading { .. } => asked.push('r'),
                _ => {}
            }
        }
        asked
    };
    // The layer's own, and the program's.
    assert_eq!(asked(&mut layer, &bytes, None), "pp");
    assert_eq!(asked(&mut layer, &[], Some(Order::Resume)), "");
    let mut later = String::new();
    while layer.next_timeout().is_some() {
        later += &asked(&mut layer, &[], None);
    }
    assert_eq!(later, "r");
}

#[test]
fn what_a_server_said_before_it_closed_is_heard() {
    for (order, heard) in [(Order::StartAsClient, 12 * 60_004), (Order::Start, 4 * 60_004)] {
        let mut layer = Compressed::new(Echo::default(), Rc::default(), usize::MAX);
        layer.inner.orders.push_back(order);
        turn(&mut layer, &[]);
        let bytes: Vec<u8> = (0..12).flat_map(|_| packed(&noise())).collect();
        layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes: &bytes });
        let reason = CloseReason::EndOfStream;
        layer.handle(Instant::START, Input::Closed { connection: CONNECTION, reason });
        assert_eq!((layer.inner.heard, layer.inner.closed), (heard, 1));
        assert!(layer.next_timeout().is_none() || !turn(&mut layer, &[]).1);
    }
}

#[test]
fn a_broken_end_is_told_once() {
    let mut layer = Compressed::new(Echo::default(), Rc::default(), usize::MAX);
    layer.inner.orders.push_back(Order::StartAsClient);
    turn(&mut layer, &[]);
    let mut bytes: Vec<u8> = (0..6).flat_map(|_| packed(&noise())).collect();
    let broken = packed(&command());
    bytes.extend_from_slice(&broken[..broken.len() - 1]);
    bytes.push(broken[broken.len() - 1] ^ 1);
    layer.handle(Instant::START, Input::Bytes { connection: CONNECTION, bytes: &bytes });
    let reason = CloseReason::EndOfStream;
    layer.handle(Instant::START, Input::Closed { connection: CONNECTION, reason });
    assert_eq!(layer.inner.closed, 1);
    assert!(!turn(&mut layer, &[]).1, "it is closed already");
}

/// Few bytes of many clients that become very many hold up nobody else for longer than one of them takes.
#[test]
fn large_packets_of_many_are_opened_in_turns() {
    const LARGE: usize = 2 << 20;
    let mut layer = Compressed::new(Crowd::default(), Rc::default(), usize::MAX);
    let connection = |index| ConnectionId { index, generation: 1 };
    for index in 0..11 {
        layer.inner.starting = Some(connection(index));
        while layer.poll_output().is_some() {}
    }
    let bomb = packed(&[&[0, 0, 0x20, 0][..], &[0; LARGE]].concat());
    for index in 0..10 {
        layer.handle(Instant::START, Input::Bytes { connection: connection(index), bytes: &bomb });
    }
    assert_eq!(layer.inner.heard, 0);
    layer.handle(
        Instant::START,
        Input::Bytes { connection: connection(10), bytes: &packed(b"\x01\0\0\0\x0e") },
    );
    assert_eq!(layer.inner.heard, 5, "what is small passes by");
    for turn in 1..=10 {
        assert_eq!(layer.next_timeout(), Some(Instant::START));
        layer.handle(Instant::START, Input::TurnEnd);
        assert_eq!(layer.inner.heard, 5 + turn * (LARGE + 4), "one in each turn");
    }
    assert_eq!(layer.next_timeout(), None);
}

/// Beginnings of packets that never end: the client that has sent most goes, and the others stay.
#[test]
fn halves_of_packets_are_bounded() {
    let held = Rc::new(Cell::new(0));
    let mut layer = Compressed::new(Crowd::default(), held.clone(), 0);
    let half = [&[0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff][..], &vec![0; 3 << 20]].concat();
    let connection = |index| ConnectionId { index, generation: 1 };
    let mut closed = Vec::new();
    for index in 0..40 {
        layer.inner.starting = Some(connection(index));
        while let Some(output) = layer.poll_output() {
            if let Output::Close { connection } = output {
                closed.push(connection);
            }
        }
        // The first ones send less than those that come later.
        let bytes = &half[..(1 << 20) + (index as usize) * 50_000];
        layer.handle(Instant::START, Input::Bytes { connection: connection(index), bytes });
        assert!(held.get() <= 2 * (LEAST_FOR_CLIENTS + bytes.len()), "{index}: {}", held.get());
    }
    assert_eq!(layer.poll_output(), Some(Output::Close { connection: connection(39) }));
    closed.push(connection(39));
    assert_eq!(closed, layer.inner.closed);
    // 32 MiB are those of the first 22 or so; from there on the latest is the one that has sent most.
    assert!(closed.iter().map(|closed| closed.index).eq(closed[0].index..40), "{closed:?}");
    for index in 0..40 {
        let reason = CloseReason::EndOfStream;
        layer.handle(Instant::START, Input::Closed { connection: connection(index), reason });
    }
    assert_eq!((held.get(), layer.held.of_clients), (0, 0));
}

/// Has compression begin where it is told to.
#[derive(Default)]
struct Crowd {
    starting: Option<ConnectionId>,
    closed: Vec<ConnectionId>,
    heard: usize,
}

impl Program for Crowd {
    fn handle(&mut self, _now: Instant, input: Input<'_>) {
        match input {
            Input::Closed { connection, reason: CloseReason::TooMuchHeld } => self.closed.push(connection),
            Input::Bytes { bytes, .. } => self.heard += bytes.len(),
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        let (compression, side) = (Compression::Zlib, CompressionSide::Server);
        let connection = self.starting.take()?;
        Some(Output::StartCompression { connection, compression, side })
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
