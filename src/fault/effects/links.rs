//! What faults leave of links.

use super::Faults;
use fabricsim_topology::LinkId;
use fabricsim_units::Time;

impl Faults {
    /// What is left of a link's rate: 1 all of it, 0 none.
    #[must_use]
    pub fn link_factor(&self, link: LinkId, time: Time) -> f64 {
        let on = |&&(item, _): &&(u32, f64)| {
            let windows = self.items[item as usize].effect.windows();
            windows.is_some_and(|windows| windows.covers(time))
        };
        let faults = self.by_link.get(&link).into_iter().flatten();
        faults.filter(on).map(|&(_, factor)| factor).product()
    }

    /// When [`Faults::link_factor`] of a link next changes (or may) after `time`.
    #[must_use]
    pub fn next_link_change(&self, link: LinkId, time: Time) -> Option<Time> {
        let faults = self.by_link.get(&link).into_iter().flatten();
        let windows = faults.filter_map(|&(item, _)| self.items[item as usize].effect.windows());
        windows.filter_map(|w| w.next_change(time)).min()
    }

    /// Whether any fault touches the link.
    #[must_use]
    pub fn touches(&self, link: LinkId) -> bool {
        self.by_link.contains_key(&link)
    }

    /// The links that any fault touches, in order of id.
    pub fn touched_links(&self) -> impl Iterator<Item = LinkId> {
        self.by_link.keys().copied()
    }

    /// The links that are gone for good before anything begins.
    pub fn gone_links(&self) -> impl Iterator<Item = LinkId> {
        self.touched_links().filter(|&link| {
            let left = self.link_factor(link, Time::ZERO);
            left == 0.0 && self.next_link_change(link, Time::ZERO).is_none()
        })
    }
}
