//! Networks that pass nothing on: whose connections to a server that holds up, and how it ends.

use super::super::World;
use super::super::servers::Way;
use super::{Act, Cut, Whose};
use crate::network::Owner;
use crate::server::Link;
use crate::subject::Subject;

impl<P: Subject> World<P> {
    /// Whether this connection passes nothing on.
    pub(in crate::world) fn is_cut(&self, way: Way) -> bool {
        let Some(cluster) = &self.cluster else { return false };
        cluster.cuts.iter().any(|cut| {
            cut.server == way.server
                && cut.site.is_none_or(|site| self.site_of(way.origin.program) == Some(site))
                && match cut.whose {
                    Whose::All => true,
                    Whose::Checks => way.origin.is_check,
                    Whose::Worker(worker) => way.origin.worker == worker && !way.origin.is_check,
                }
        })
    }

    /// Whether what is to arrive on a connection does not arrive now, in the direction of the server or of the program.
    pub(in crate::world) fn holds_up(&self, link: Link, to_server: bool) -> bool {
        if self.cluster.is_none() || self.network.owner(link) != Some(Owner::Server) {
            return false;
        }
        self.ways.get(&link).is_some_and(|&way| self.is_cut(way) || (to_server && self.hangs(way.server)))
    }

    /// Whether a connection is one of a program at this site.
    pub(super) fn is_of(&self, link: Link, site: Option<usize>) -> bool {
        let program = self.ways.get(&link).map(|way| way.origin.program);
        site.is_none() || program.is_some_and(|program| self.site_of(program) == site)
    }

    pub(super) fn cut(&mut self, place: usize, lasts: u64) {
        let workers = self.parameters.workers as usize;
        let sites = self.onramps.as_ref().map(|onramps| onramps.sites.len());
        let Some(cluster) = &mut self.cluster else { return };
        let whose = match cluster.random.below(5) {
            0 | 1 => Whose::All,
            2 => Whose::Checks,
            _ => Whose::Worker(cluster.random.index(workers)),
        };
        let of_one = sites.filter(|_| cluster.random.percent(60));
        let site = of_one.map(|sites| cluster.random.index(sites));
        let cut = Cut { server: place, whose, site };
        cluster.cuts.push(cut);
        self.say(place, &format!("is cut off: {cut:?}"));
        self.plan(lasts, Act::Heal);
        if whose == Whose::All {
            self.may_be_replaced(place);
        }
    }

    /// The connections of everybody's checks to this server pass nothing on for so long.
    pub(in crate::world) fn cut_checks(&mut self, place: usize, lasts: u64) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.cuts.push(Cut { server: place, whose: Whose::Checks, site: None });
        self.say(place, "is not heard by checks");
        self.plan(lasts, Act::Heal);
    }

    /// A cut ends: connections go on, or some of them are found to be gone.
    pub(super) fn heal(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        if cluster.cuts.is_empty() {
            return;
        }
        let cut = cluster.cuts.remove(0);
        let (place, goes_on) = (cut.server, cluster.random.percent(50));
        self.say(place, &format!("is reached again: {cut:?}"));
        if !goes_on {
            let is_cut = |link: &Link| self.is_of(*link, cut.site);
            let links: Vec<Link> = self.servers[place].links().filter(is_cut).collect();
            for link in links {
                self.servers[place].drop_link(link);
                self.network.peer_resets(self.now, &mut self.schedule, link);
            }
        }
        self.plan_all_replication();
    }
}
