//! Links that get less than they could carry: bytes come to them through several ports of a
//! switch, at random.

use fabricsim_topology::LinkId;
use fabricsim_units::Bandwidth;

/// What such links keep of their rates; other links keep all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// In order of link.
    kept: Vec<(LinkId, u32)>,
}

/// A link that keeps all, keeps so much.
const WHOLE: u32 = 1_000_000;

impl Merged {
    /// What a link keeps of its rate.
    #[must_use]
    pub fn rate(&self, link: LinkId, whole: Bandwidth) -> Bandwidth {
        let part = self.part(link);
        if part < 1.0 {
            whole.scaled(part)
        } else {
            whole
        }
    }

    /// The part of its rate that a link keeps, up to 1.
    #[must_use]
    pub fn part(&self, link: LinkId) -> f64 {
        let known = self.kept.binary_search_by_key(&link, |&(l, _)| l);
        known.map_or(1.0, |at| f64::from(self.kept[at].1) / f64::from(WHOLE))
    }

    /// Adds those of others at the same time. A link of both keeps the smaller part.
    pub fn append(&mut self, other: &Merged) {
        self.kept.extend(&other.kept);
        // Two sorted runs, which this merges.
        self.kept.sort();
        self.kept.dedup_by_key(|&mut (link, _)| link);
    }
}

impl FromIterator<(LinkId, f64)> for Merged {
    /// What links keep, as parts of their rates; each link once.
    fn from_iter<I: IntoIterator<Item = (LinkId, f64)>>(links: I) -> Self {
        let part = |(link, kept): (LinkId, f64)| (link, (kept * f64::from(WHOLE)).round() as u32);
        let mut kept: Vec<_> = links.into_iter().map(part).collect();
        kept.sort_unstable();
        Merged { kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_several_plans_keep_the_smaller_part() {
        let mut all = Merged::from_iter([(LinkId(7), 0.9), (LinkId(3), 0.95)]);
        all.append(&Merged::from_iter([(LinkId(7), 0.8), (LinkId(9), 0.7)]));
        all.append(&Merged::from_iter([(LinkId(3), 0.99)]));
        let whole = Bandwidth::from_gb_per_sec(100);
        let rates: Vec<f64> = (0..10)
            .map(|link| all.rate(LinkId(link), whole).gb_per_sec())
            .collect();
        let expected = [
            100.0, 100.0, 100.0, 95.0, 100.0, 100.0, 100.0, 80.0, 100.0, 70.0,
        ];
        assert_eq!(rates, expected);
    }
}
