//! Which server is the primary, by how all of them stand. A pure function: it never guesses.

use super::standing::Standing;
use crate::outside::named::ServerState;

/// Why no server is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoPrimary {
    /// Not all of them have been asked yet.
    Untried,
    /// None is up and takes writes.
    None,
    /// These are, by their places: to write on either may be wrong.
    Several(Vec<usize>),
}

/// The place of the primary's address. Of several addresses of one server that of `former` is kept, else the first is taken.
///
/// # Errors
/// Why there is none.
pub(crate) fn choose(servers: &[Standing], former: Option<usize>) -> Result<usize, NoPrimary> {
    if servers.iter().any(|server| server.state() == ServerState::Untried) {
        return Err(NoPrimary::Untried);
    }
    let mut writable: Vec<usize> = Vec::new();
    for (place, server) in servers.iter().enumerate().filter(|(_, server)| server.is_writable()) {
        let identity = &server.believed().identity;
        match writable.iter_mut().find(|other| servers[**other].believed().identity == *identity) {
            None => writable.push(place),
            Some(other) if former == Some(place) => *other = place,
            Some(_) => {}
        }
    }
    match writable.as_slice() {
        [] => Err(NoPrimary::None),
        &[only] => Ok(only),
        several => first_node(servers, several).ok_or_else(|| NoPrimary::Several(several.to_vec())),
    }
}

/// All nodes of one Galera take writes, and those of two nodes at a time fail each other's certification. The lowest place in the
/// cluster's own list is the same for whoever asks.
fn first_node(servers: &[Standing], places: &[usize]) -> Option<usize> {
    let node = |place: &usize| servers[*place].believed().node.as_ref();
    let cluster = &node(places.first()?)?.0;
    if cluster.is_empty() || !places.iter().all(|place| node(place).is_some_and(|(own, _)| own == cluster)) {
        return None;
    }
    places.iter().copied().min_by_key(|place| node(place).map(|&(_, index)| index))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seam::Instant;

    use super::*;
    use crate::cluster::standing::Checked;
    use crate::cluster::verdict::Verdict;
    use crate::outside::named::ServerRole;

    fn standing(identity: &str, writable: bool, node: Option<(&str, u32)>) -> Standing {
        let mut standing = Standing::new();
        let verdict = Verdict {
            role: ServerRole::Primary,
            is_well: !identity.is_empty(),
            is_writable: writable,
            identity: String::from(identity),
            node: node.map(|(cluster, index)| (String::from(cluster), index)),
            ..Verdict::unreached(String::new())
        };
        standing.take(Checked { at: Instant::START, took: Duration::ZERO, verdict });
        standing
    }

    #[test]
    fn nobody_is_chosen_before_all_have_been_asked() {
        let servers = [standing("a", true, None), Standing::new()];
        assert_eq!(choose(&servers, None), Err(NoPrimary::Untried));
    }

    #[test]
    fn the_only_one_that_takes_writes_is_the_primary() {
        let servers = [standing("a", false, None), standing("b", true, None), standing("", false, None)];
        assert_eq!(choose(&servers, Some(0)), Ok(1));
        assert_eq!(choose(&servers[..1], Some(0)), Err(NoPrimary::None));
    }

    #[test]
    fn two_that_take_writes_are_none_whoever_was_it_before() {
        let servers = [standing("a", true, None), standing("b", true, None)];
        assert_eq!(choose(&servers, Some(0)), Err(NoPrimary::Several(vec![0, 1])));
    }

    #[test]
    fn two_addresses_of_one_server_are_one() {
        let servers = [standing("a", true, None), standing("a", true, None), standing("b", false, None)];
        assert_eq!(choose(&servers, None), Ok(0));
        assert_eq!(choose(&servers, Some(1)), Ok(1), "it is in use");
    }

    #[test]
    fn of_the_nodes_of_one_galera_the_lowest_writes() {
        let node = |name, cluster, index| standing(name, true, Some((cluster, index)));
        let servers = [node("a", "c", 2), node("b", "c", 0), node("d", "c", 1)];
        assert_eq!(choose(&servers, Some(0)), Ok(1));
        let servers = [node("a", "c", 2), node("b", "another", 0)];
        assert_eq!(choose(&servers, None), Err(NoPrimary::Several(vec![0, 1])));
        let servers = [node("a", "c", 2), standing("b", true, None)];
        assert_eq!(choose(&servers, None), Err(NoPrimary::Several(vec![0, 1])));
    }
}
