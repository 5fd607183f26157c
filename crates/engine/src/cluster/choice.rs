//! Chooses the primary by the standings of all servers. A pure function: it never guesses.

use super::standing::ServerStanding;
use super::verdict::Membership;
use crate::outside::named::ServerState;

/// The reason for which no server is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoPrimary {
    /// Not all servers have been asked yet.
    Untried,
    /// No server is up and takes writes.
    None,
    /// Several servers take writes, by their places: to write on either may be wrong.
    Several(Vec<usize>),
    /// The server at this place would be the primary, but lacks transactions that the former one was known to have.
    Behind(usize, String),
    /// The server at this place would be the primary, but is drained.
    Drained(usize),
    /// The server at this place takes writes, and has left a group that others are members of.
    Outside(usize),
    /// The server at this place takes writes, and its group has gone on without it.
    LeftOut(usize),
    /// The server at this place would be the primary, by its answers before its last check failed.
    Uncertain(usize),
    /// The server at this place would be the primary, and has not confirmed that since it became clear.
    Unconfirmed(usize),
}

/// Returns the place of the primary's address. Of several addresses of one server that of `former` is kept, else the first is taken that is
/// not drained. Servers that are `drained`, by their places, are never the primary, whatever they say of themselves.
///
/// # Errors
/// The reason for which there is none.
pub(crate) fn choose(
    servers: &[ServerStanding],
    drained: &[bool],
    former: Option<usize>,
) -> Result<usize, NoPrimary> {
    let takes_part = |place: &usize| !drained[*place];
    if (0..servers.len()).filter(takes_part).any(|place| servers[place].state() == ServerState::Untried) {
        return Err(NoPrimary::Untried);
    }
    let mut writable: Vec<usize> = Vec::new();
    let mut unusable = None;
    for (place, server) in servers.iter().enumerate().filter(|(_, server)| server.is_writable()) {
        let is_outside = is_outside(servers, server).then_some(NoPrimary::Outside(place));
        let left_out = || is_left_out(servers, place, former).then_some(NoPrimary::LeftOut(place));
        if let Some(reason) = is_outside.or_else(left_out) {
            unusable = unusable.or(Some(reason).filter(|_| takes_part(&place)));
            continue;
        }
        let identity = &server.believed().identity;
        match writable.iter_mut().find(|other| servers[**other].believed().identity == *identity) {
            None => writable.push(place),
            // By a drained name it is not used.
            Some(other) if takes_part(&place) && (former == Some(place) || !takes_part(other)) => {
                *other = place;
            }
            Some(_) => {}
        }
    }
    let candidates: Vec<usize> = writable.iter().copied().filter(takes_part).collect();
    let Some(&first) = candidates.first() else {
        return Err(unusable.unwrap_or(NoPrimary::None));
    };
    // A drained one still knows of the last change of its cluster's members.
    writable.retain(|place| takes_part(place) || are_of_one_cluster(servers, &[first, *place]));
    match writable.as_slice() {
        &[only] => Ok(only),
        several => of_one_cluster(servers, several, former, takes_part).ok_or(match candidates.as_slice() {
            [_] => NoPrimary::None,
            _ => NoPrimary::Several(candidates),
        }),
    }
}

fn membership(servers: &[ServerStanding], place: usize) -> Option<&Membership> {
    servers[place].believed().membership.as_ref()
}

/// Says whether a server was a member of a group and is none any more, as it says, while others are. Writes on it never reach the group.
fn is_outside(servers: &[ServerStanding], server: &ServerStanding) -> bool {
    let is_member_of = |other: &ServerStanding, group: &str| {
        let found = other.believed();
        // Also where it is unfit: a group that has lost its majority for now goes on with what it has once that is back.
        matches!(other.state(), ServerState::Up | ServerState::Unfit)
            && found.is_of_group()
            && found.membership.as_ref().is_some_and(|own| own.takes_part && own.cluster == group)
    };
    server.left().is_some_and(|group| servers.iter().any(|other| is_member_of(other, group)))
}

/// Says whether a group has gone on without a server that does not know of that. Only a majority changes the members, so the others have had
/// one since, also where they lack it now; and what this server would write, none of them takes. The former primary may hear of a change
/// later than others: it is given time, since to give it up costs its clients their transactions.
fn is_left_out(servers: &[ServerStanding], place: usize, former: Option<usize>) -> bool {
    let server = &servers[place];
    let own = server.believed().membership.as_ref().filter(|_| server.believed().is_of_group());
    let knows_of_later = |other: &ServerStanding| {
        let its = other.believed().membership.as_ref();
        matches!(other.state(), ServerState::Up | ServerState::Unfit)
            && own
                .zip(its)
                .is_some_and(|(own, its)| its.takes_part && its.cluster == own.cluster && its.view > own.view)
    };
    let has_had_time =
        |other: &ServerStanding| former != Some(place) || server.was_asked_since(other.view_since());
    servers.iter().any(|other| knows_of_later(other) && has_had_time(other))
}

fn are_of_one_cluster(servers: &[ServerStanding], places: &[usize]) -> bool {
    let mut clusters = places.iter().map(|&place| membership(servers, place).map(|own| &own.cluster));
    let first = clusters.next().flatten();
    first.is_some_and(|first| !first.is_empty()) && clusters.all(|cluster| cluster == first)
}

/// Returns the member of one cluster that is to write. Members that have not heard of the last change of members do not count: the others may
/// have left them out, as one that has hung and comes to. Of the rest, the lowest place in the list that all have alike writes. That is the
/// same for everybody: writes on two nodes of Galera fail each other's certification. `may_be` says which members may be chosen.
fn of_one_cluster(
    servers: &[ServerStanding],
    places: &[usize],
    former: Option<usize>,
    may_be: impl Fn(&usize) -> bool,
) -> Option<usize> {
    if !are_of_one_cluster(servers, places) {
        return None;
    }
    let membership = |place: usize| membership(servers, place);
    let latest = places.iter().filter_map(|&place| membership(place)).max_by_key(|own| own.view)?;
    let is_present = |place: usize| membership(place).is_some_and(|own| own.view == latest.view);
    let present: Vec<usize> = places.iter().copied().filter(|&place| is_present(place)).collect();
    if latest.place.is_none() {
        // One member alone writes: two that both say that they do are not to be believed.
        return present.first().copied().filter(|only| present.len() == 1 && may_be(only));
    }
    // Places have moved up with the change: they mean something once all have been asked since. Where the cluster has members that are
    // none of ours, such as an arbitrator, that is so when nobody can be the next to hear of the change.
    let asked = (0..servers.len()).filter(|&place| is_present(place)).count();
    let since = present.iter().map(|&place| servers[place].view_since()).min()?;
    let has_had_time = |place: &usize| is_present(*place) || servers[*place].was_asked_since(since);
    let is_settled = asked >= latest.members as usize || places.iter().all(has_had_time);
    former.filter(|former| !is_settled && places.contains(former) && may_be(former)).or_else(|| {
        present.into_iter().filter(may_be).min_by_key(|&place| membership(place).map(|own| own.place))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seam::Instant;

    use super::*;
    use crate::cluster::standing::Checked;
    use crate::cluster::verdict::{Membership, ServerVerdict};
    use crate::outside::named::ServerRole;

    fn standing(identity: &str, writable: bool, membership: Option<Membership>) -> ServerStanding {
        let mut standing = ServerStanding::new();
        let verdict = ServerVerdict {
            role: ServerRole::Primary,
            is_well: !identity.is_empty(),
            is_writable: writable,
            identity: String::from(identity),
            membership,
            ..ServerVerdict::unreached("")
        };
        standing.take(Checked { at: Instant::START, took: Duration::ZERO, verdict });
        standing
    }

    /// Chooses where nothing is drained.
    fn chosen(servers: &[ServerStanding], former: Option<usize>) -> Result<usize, NoPrimary> {
        choose(servers, &vec![false; servers.len()], former)
    }

    #[test]
    fn nobody_is_chosen_before_all_have_been_asked() {
        let servers = [standing("a", true, None), ServerStanding::new()];
        assert_eq!(chosen(&servers, None), Err(NoPrimary::Untried));
    }

    #[test]
    fn the_only_one_that_takes_writes_is_the_primary() {
        let servers = [standing("a", false, None), standing("b", true, None), standing("", false, None)];
        assert_eq!(chosen(&servers, Some(0)), Ok(1));
        assert_eq!(chosen(&servers[..1], Some(0)), Err(NoPrimary::None));
    }

    #[test]
    fn two_that_take_writes_are_none_whoever_was_it_before() {
        let servers = [standing("a", true, None), standing("b", true, None)];
        assert_eq!(chosen(&servers, Some(0)), Err(NoPrimary::Several(vec![0, 1])));
    }

    #[test]
    fn two_addresses_of_one_server_are_one() {
        let servers = [standing("a", true, None), standing("a", true, None), standing("b", false, None)];
        assert_eq!(chosen(&servers, None), Ok(0));
        assert_eq!(chosen(&servers, Some(1)), Ok(1), "it is in use");
    }

    /// A node of a Galera of so many members, at a place in the view with this number.
    fn node(name: &str, cluster: &str, (view, members): (u64, u32), place: u32) -> ServerStanding {
        let cluster = String::from(cluster);
        standing(
            name,
            true,
            Some(Membership { cluster, view: (0, view), members, place: Some(place), takes_part: true }),
        )
    }

    #[test]
    fn of_the_nodes_of_one_galera_the_lowest_writes() {
        let servers = [node("a", "c", (3, 3), 2), node("b", "c", (3, 3), 0), node("d", "c", (3, 3), 1)];
        assert_eq!(chosen(&servers, Some(0)), Ok(1));
        let servers = [node("a", "c", (3, 1), 2), node("b", "another", (3, 1), 0)];
        assert_eq!(chosen(&servers, None), Err(NoPrimary::Several(vec![0, 1])));
        let servers = [node("a", "c", (3, 1), 2), standing("b", true, None)];
        assert_eq!(chosen(&servers, None), Err(NoPrimary::Several(vec![0, 1])));
    }

    /// The nodes' places move up when one has gone. Until all have been asked since, a second one may have the place of the first.
    #[test]
    fn the_writer_does_not_change_twice_when_a_node_has_gone() {
        let (old, new) = ((3, 3), (4, 2));
        let gone = || standing("", false, None);
        assert_eq!(chosen(&[gone(), node("b", "c", old, 1), node("d", "c", old, 2)], Some(0)), Ok(1));
        assert_eq!(chosen(&[gone(), node("b", "c", old, 1), node("d", "c", new, 1)], Some(1)), Ok(1));
        assert_eq!(chosen(&[gone(), node("b", "c", new, 0), node("d", "c", new, 1)], Some(1)), Ok(1));
        // It has come back, and the others have not all been asked.
        let (back, last) = (node("a", "c", (5, 3), 0), (5, 3));
        let servers = [back, node("b", "c", new, 0), node("d", "c", new, 1)];
        assert_eq!(chosen(&servers, Some(1)), Ok(1));
        let servers = [node("a", "c", last, 0), node("b", "c", last, 1), node("d", "c", last, 2)];
        assert_eq!(chosen(&servers, Some(1)), Ok(0));
    }

    /// A node that hangs, or has lost the others, does not know yet that they go on without it.
    #[test]
    fn a_node_that_the_others_have_left_out_does_not_write() {
        let servers = [node("a", "c", (3, 3), 0), node("b", "c", (4, 2), 0), node("d", "c", (4, 2), 1)];
        assert_eq!(chosen(&servers, Some(0)), Ok(1));
    }

    /// The change of members has left the writer out. An arbitrator is among the others, so that not all of them can be asked.
    #[test]
    fn a_writer_that_does_not_hear_of_a_change_is_left_out_after_some_checks() {
        let mut writer = node("a", "c", (3, 3), 0);
        let mut other = node("b", "c", (3, 3), 1);
        let check = |standing: &mut ServerStanding, seconds, view| {
            let at = Instant::START + Duration::from_secs(seconds);
            let membership = Membership { view: (0, view), members: 2, ..membership_of(standing) };
            let verdict = ServerVerdict { membership: Some(membership), ..standing.verdict().clone() };
            standing.take(Checked { at, took: Duration::from_millis(100), verdict });
        };
        check(&mut other, 10, 4);
        // This one began before.
        check(&mut writer, 10, 3);
        (11..20).for_each(|second| check(&mut writer, second, 3));
        let servers = [writer, other];
        assert_eq!(chosen(&servers, Some(0)), Ok(0), "it may hear of it in the next moment");
        let [mut writer, other] = servers;
        check(&mut writer, 20, 3);
        assert_eq!(chosen(&[writer, other], Some(0)), Ok(1));
    }

    fn membership_of(standing: &ServerStanding) -> Membership {
        standing.believed().membership.clone().unwrap()
    }

    #[test]
    fn of_a_group_with_one_primary_the_last_elected_writes() {
        let member = |name: &str, view, writes| {
            let cluster = String::from("g");
            let membership = Membership { cluster, view, members: 3, place: None, takes_part: true };
            standing(name, writes, Some(membership))
        };
        // The first hung while the others elected another one, and has come to.
        let servers = [member("a", (7, 3), true), member("b", (7, 4), true), member("c", (7, 4), false)];
        assert_eq!(chosen(&servers, Some(0)), Ok(1));
        assert_eq!(chosen(&servers, Some(1)), Ok(1));
        let servers = [member("a", (7, 4), true), member("b", (7, 4), true)];
        assert_eq!(chosen(&servers, Some(0)), Err(NoPrimary::Several(vec![0, 1])));
        // A group that was begun anew.
        let servers = [member("a", (7, 9), true), member("b", (8, 1), true)];
        assert_eq!(chosen(&servers, Some(0)), Ok(1));
    }

    /// The others have elected a primary, and too few of them are left now for it to write.
    #[test]
    fn a_member_that_its_group_has_left_out_does_not_write_while_the_others_have_no_majority() {
        let member = |name: &str, (view, at): (u64, u64), writes: bool| {
            let cluster = String::from("g");
            let membership =
                Membership { cluster, view: (7, view), members: 3, place: None, takes_part: true };
            let verdict = ServerVerdict {
                role: ServerRole::Primary,
                is_well: writes,
                is_writable: writes,
                identity: String::from(name),
                membership: Some(membership),
                ..ServerVerdict::unreached("")
            };
            let at = Instant::START + Duration::from_secs(at);
            Checked { at, took: Duration::ZERO, verdict }
        };
        let [mut hung, mut other] = [ServerStanding::new(), ServerStanding::new()];
        other.take(member("b", (4, 5), false));
        hung.take(member("a", (3, 6), true));
        let servers = [hung, other];
        assert_eq!(chosen(&servers, Some(1)), Err(NoPrimary::LeftOut(0)));
        assert_eq!(chosen(&servers, Some(0)), Ok(0), "it may hear of it in the next moment");
        let [mut hung, other] = servers;
        for second in 7..16 {
            hung.take(member("a", (3, second), true));
        }
        assert_eq!(chosen(&[hung, other], Some(0)), Err(NoPrimary::LeftOut(0)));
        // It has heard of it.
        let [mut hung, mut other] = [ServerStanding::new(), ServerStanding::new()];
        other.take(member("b", (4, 5), false));
        hung.take(member("a", (4, 6), true));
        assert_eq!(chosen(&[hung, other], None), Ok(0));
    }

    #[test]
    fn a_drained_server_is_passed_over_and_holds_up_nobody() {
        let servers = [standing("a", true, None), standing("b", true, None), ServerStanding::new()];
        assert_eq!(choose(&servers, &[false, true, true], Some(0)), Ok(0));
        assert_eq!(choose(&servers, &[true, true, false], Some(0)), Err(NoPrimary::Untried));
        assert_eq!(choose(&servers[..2], &[true, true], Some(0)), Err(NoPrimary::None));
        let servers = [node("a", "c", (3, 3), 0), node("b", "c", (3, 3), 1), node("d", "c", (3, 3), 2)];
        assert_eq!(choose(&servers, &[true, false, false], Some(0)), Ok(1));
        assert_eq!(choose(&servers, &[true, true, false], Some(0)), Ok(2));
    }

    /// The drained node is not chosen itself, and its news of the others counts.
    #[test]
    fn of_a_drained_node_the_last_change_of_members_is_known() {
        let (old, new) = ((3, 3), (4, 2));
        let servers = [node("a", "c", new, 0), node("b", "c", old, 1), node("d", "c", old, 2)];
        assert_eq!(choose(&servers, &[true, false, false], Some(1)), Ok(1), "not all have been asked since");
        let servers = [node("a", "c", new, 0), node("b", "c", old, 0), node("d", "c", new, 1)];
        assert_eq!(choose(&servers, &[true, false, false], Some(1)), Ok(2), "it has been left out");
        assert_eq!(choose(&servers, &[true, false, true], Some(1)), Err(NoPrimary::None));
    }
}
