//! Points that a folder lacks: counted and told without being written down, for a folder's file may speak of
//! billions.

use super::info::SweepInfo;

/// So many numbers, or runs of numbers, are told.
const TOLD: usize = 12;

/// Points of a sweep that are not there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    /// How many.
    pub(super) count: u64,
    /// Their numbers as people write them: `0-3, 7`; of many the first.
    pub(super) told: String,
}

impl Missing {
    /// What a folder lacks that has these points, whose numbers come in order; nothing, if it has all.
    pub(super) fn of(info: &SweepInfo, known: impl Iterator<Item = u32>) -> Option<Missing> {
        let (mut next, step) = match info.shard {
            Some(shard) => (u64::from(shard.index - 1), u64::from(shard.of)),
            None => (0, 1),
        };
        let mut missing = Missing::default();
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for known in known.map(u64::from).chain([u64::from(info.points)]) {
            missing.count += known.saturating_sub(next).div_ceil(step);
            while next < known && parts.len() <= TOLD {
                let last = if step == 1 { known - 1 } else { next };
                parts.push((next, last));
                next = last + step;
            }
            next = next.max(known + step);
        }
        let more = parts.len() > TOLD;
        let told = parts.into_iter().take(TOLD);
        let told = told.map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        missing.told = told.collect::<Vec<_>>().join(", ");
        if more {
            missing.told += " …";
        }
        (missing.count > 0).then_some(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::super::info::Shard;
    use super::*;

    fn missing(points: u32, shard: Option<Shard>, known: &[u32]) -> Option<(u64, String)> {
        let info = SweepInfo {
            points,
            shard,
            ..SweepInfo::sample()
        };
        let missing = Missing::of(&info, known.iter().copied())?;
        Some((missing.count, missing.told))
    }

    #[test]
    fn what_is_missing_is_told_in_runs() {
        let told = |count: u64, told: &str| Some((count, told.to_owned()));
        assert_eq!(missing(3, None, &[0, 1, 2]), None);
        assert_eq!(missing(9, None, &[4, 5, 7]), told(6, "0-3, 6, 8"));
        let shard = Some(Shard { index: 2, of: 4 });
        assert_eq!(missing(12, shard, &[1, 9]), told(1, "5"));
        assert_eq!(missing(14, shard, &[1]), told(3, "5, 9, 13"));
        assert_eq!(missing(9, shard, &[1, 5]), None);
        let odd: Vec<u32> = (0..20).map(|n| 2 * n + 1).collect();
        let first = "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22 …";
        assert_eq!(missing(40, None, &odd), told(20, first));
    }

    #[test]
    fn billions_of_points_are_counted_at_once() {
        let most = u32::MAX;
        assert_eq!(
            missing(most, None, &[7]).map(|found| found.0),
            Some(u64::from(most) - 1)
        );
        let shard = Some(Shard { index: 1, of: 2 });
        assert_eq!(
            missing(most, shard, &[]).map(|found| found.0),
            Some(1 << 31)
        );
    }
}
