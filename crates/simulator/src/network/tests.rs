use super::*;

const CONDITIONS: Conditions =
    Conditions { delay: 100, cut_percent: 50, receive_buffer: 10, high_water: 100, slow_chunk: 50 };

/// Lets everything arrive; returns what the peer and the program received.
fn settle(network: &mut Network, schedule: &mut Schedule) -> (Vec<u8>, Vec<Event>) {
    let (mut to_peer, mut events) = (Vec::new(), Vec::new());
    while let Some((now, happening)) = schedule.pop() {
        match happening {
            Happening::ArriveAtPeer(link) => {
                if let Some((_, Parcel::Bytes(bytes))) = network.arrive_at_peer(link) {
                    to_peer.extend(bytes);
                }
            }
            Happening::ArriveAtProgram(link) => {
                network.arrive_at_program(link);
                events.extend(network.take_events(link).into_iter().map(|(_, _, event)| event));
            }
            Happening::SlowRead(link) => network.slow_read(now, schedule, link),
            _ => {}
        }
        while network.has_news(0) {
            for link in network.ready_links(0) {
                events.extend(network.take_events(link).into_iter().map(|(_, _, event)| event));
            }
        }
    }
    (to_peer, events)
}

fn received(events: &[Event]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|event| if let Event::Bytes(bytes) = event { bytes.clone() } else { vec![] })
        .collect()
}

#[test]
fn bytes_arrive_in_order_and_before_the_end() {
    let mut schedule = Schedule::default();
    let mut network = Network::new(CONDITIONS, Random::new(5));
    let (link, id) = network.open(Owner::Client(0), 0);
    let sent: Vec<u8> = (0..200).collect();
    for part in sent.chunks(50) {
        network.peer_sends(0, &mut schedule, link, part);
        network.program_sends(0, &mut schedule, 1, link, part);
    }
    network.set_paused(link, true);
    assert!(network.take_events(link).is_empty());
    network.set_paused(link, false);
    let (to_peer, events) = settle(&mut network, &mut schedule);
    assert_eq!((to_peer, received(&events)), (sent.clone(), sent));
    network.peer_closes(0, &mut schedule, link);
    let (_, events) = settle(&mut network, &mut schedule);
    assert_eq!(events, [Event::Closed(CloseReason::EndOfStream)]);
    assert_eq!(network.link_of(id), None);
    let (_, next) = network.open(Owner::Client(1), 0);
    assert_eq!((next.index, next.generation), (id.index, id.generation + 1));
}

#[test]
fn what_was_closed_arrives_and_what_was_aborted_does_not() {
    type End = fn(&mut Network, u64, &mut Schedule, Link);
    for (end, arrives) in [(Network::program_closes as End, 200), (Network::program_aborts as End, 0)] {
        let mut schedule = Schedule::default();
        let mut network = Network::new(CONDITIONS, Random::new(5));
        let (link, id) = network.open(Owner::Server, 0);
        network.program_sends(0, &mut schedule, 1, link, &[1; 200]);
        end(&mut network, 0, &mut schedule, link);
        assert!(network.link_of(id).is_none() && !network.is_open(link));
        let (to_peer, events) = settle(&mut network, &mut schedule);
        assert_eq!((to_peer.len(), events), (arrives, vec![]));
        assert_eq!(network.owner(link), None, "its end has arrived");
    }
}

#[test]
fn a_slow_reader_stalls_and_drains_and_loses_nothing() {
    let mut schedule = Schedule::default();
    let mut network = Network::new(CONDITIONS, Random::new(6));
    let (link, _) = network.open(Owner::Client(0), 0);
    network.set_slow(0, &mut schedule, link, true);
    network.program_sends(0, &mut schedule, 1, link, &[1; 300]);
    assert_eq!(network.take_events(link).len(), 1);
    network.program_sends(0, &mut schedule, 1, link, &[2; 20]);
    assert_eq!(network.sent_while_stalled(link), 20);
    let mut to_peer = Vec::new();
    let mut events = Vec::new();
    while to_peer.len() < 320 {
        let (now, happening) = schedule.pop().expect("the reader goes on");
        match happening {
            Happening::SlowRead(link) => network.slow_read(now, &mut schedule, link),
            Happening::ArriveAtPeer(link) => {
                if let Some((_, Parcel::Bytes(bytes))) = network.arrive_at_peer(link) {
                    to_peer.extend(bytes);
                }
            }
            _ => {}
        }
        events.extend(network.take_events(link).into_iter().map(|(_, _, event)| event));
    }
    assert_eq!(to_peer, [vec![1; 300], vec![2; 20]].concat());
    assert_eq!(events, [Event::Drained]);
}
