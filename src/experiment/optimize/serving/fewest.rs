//! The fewest GPUs of a machine on which some way to serve does what is asked. More GPUs are more engines, so that what
//! few do more do, too: numbers of nodes are doubled until one does, and halved between that and the one before.

use super::super::ask::Size;
use super::Search;
use super::place::{Place, Until};
use crate::error::ScenarioError;
use crate::spec::TopologyRef;
use fabricsim_report::optimize::Tried;

impl Search<'_> {
    /// The fewest GPUs that do, up to `most`, with all ways on them; where none do, the most that were tried, and how much of
    /// the load is kept there is put down.
    pub(super) fn fewest(
        &mut self,
        machine: &TopologyRef,
        most: u32,
    ) -> Result<Option<Place>, ScenarioError> {
        let each = self.of_a_node(machine)?;
        let sizes = sizes(each, most);
        // The first whole node, then twice as many each time.
        let mut next = sizes.len().min(each as usize);
        let (mut missed, mut met) = (0, None);
        let mut last = None;
        while met.is_none() && missed < sizes.len() {
            let place = self.tries(machine, sizes[next - 1])?;
            if place.meets() {
                met = Some((next, place));
            } else {
                missed = next;
                next = doubled(next, each as usize).min(sizes.len());
                last = Some(place);
            }
        }
        let Some((mut met, mut fewest)) = met else {
            if let Some(last) = &last {
                self.hold(last)?;
            }
            return Ok(last);
        };
        while met - missed > 1 {
            let middle = usize::midpoint(missed, met);
            let place = self.tries(machine, sizes[middle - 1])?;
            match place.meets() {
                true => (met, fewest) = (middle, place),
                false => missed = middle,
            }
        }
        self.simulate_on(&mut fewest, Until::All);
        Ok(Some(fewest))
    }

    /// Whether some way on so many GPUs does what is asked.
    fn tries(&mut self, machine: &TopologyRef, gpus: u32) -> Result<Place, ScenarioError> {
        let mut place = self.place(machine, Size::Gpus(gpus))?;
        self.simulate_on(&mut place, Until::Met);
        self.found.tried.push(Tried {
            topology: place.topology.clone(),
            gpus,
            met: place.meets(),
            tokens_per_s: None,
            why: None,
        });
        Ok(place)
    }

    /// GPUs of a node.
    fn of_a_node(&self, machine: &TopologyRef) -> Result<u32, ScenarioError> {
        let own = self.own(machine, Size::Nodes(1))?;
        let site = self.how.1.of(&own.spec, self.folder, &own.origin)?;
        Ok((site.topology.gpus().count() as u32).max(1))
    }
}

/// Parts of a node, then whole nodes.
fn sizes(each: u32, most: u32) -> Vec<u32> {
    let parts = (1..each).filter(|&gpus| gpus <= most);
    let whole = (1..=most / each).map(|nodes| nodes * each);
    parts.chain(whole).collect()
}

/// The place, from 1, of twice as many nodes in a list of parts of a node and then whole nodes.
fn doubled(place: usize, each: usize) -> usize {
    let nodes = (place + 1).saturating_sub(each).max(1);
    each - 1 + 2 * nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_doubled_behind_the_parts_of_one() {
        let all = sizes(8, 40);
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40]);
        assert_eq!(sizes(8, 5), [1, 2, 3, 4, 5]);
        let gpus = |place: usize| all[place - 1];
        let one = 8;
        assert_eq!(gpus(one), 8);
        assert_eq!(gpus(doubled(one, 8)), 16);
        assert_eq!(gpus(doubled(doubled(one, 8), 8)), 32);
        assert_eq!(sizes(1, 3), [1, 2, 3]);
        assert_eq!(doubled(doubled(1, 1), 1), 4);
    }
}
