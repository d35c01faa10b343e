//! Rings where GPUs are joined by NVLinks of their own, without switches: DGX-1's cube
//! mesh, quads in which all are joined to all.
//!
//! NCCL searches such rings link by link, at falling speeds, and so does this, with the same
//! aim (most channels × speed) and a limit on the steps taken. Which of several equally good
//! sets of rings it finds may differ from NCCL's.

use fabricsim_topology::{DeviceId, LinkFamily, Topology};

/// Steps that a search at one speed may take (NCCL: 2¹⁴ an attempt, 2¹⁹ in all).
const MOST_STEPS: u32 = 1 << 16;

/// What NCCL believes the links from each GPU straight to each other one to carry, GB/s.
pub(super) fn capacities(
    topology: &Topology,
    gpus: &[DeviceId],
    believed: impl Fn(fabricsim_topology::LinkId) -> f64,
) -> Vec<Vec<f64>> {
    let mut all = vec![vec![0.0; gpus.len()]; gpus.len()];
    for (from, &gpu) in gpus.iter().enumerate() {
        for (link, far) in topology.links_from(gpu) {
            if topology.family(link) == LinkFamily::Nvlink
                && let Some(to) = gpus.iter().position(|&g| g == far)
            {
                all[from][to] += believed(link);
            }
        }
    }
    all
}

/// Ways past all GPUs, by their orders, and the speed of each.
pub(super) type Found = (Vec<Vec<u32>>, f64);

/// The best rings over all GPUs. `None` if NVLinks alone make no ring.
pub(super) fn rings(capacities: &[Vec<f64>], speeds: &[f64], most: usize) -> Option<Found> {
    best(capacities, speeds, most, None)
}

/// The best ways through a host from interface to interface: the k-th begins and ends at two of the
/// GPUs `near[k]`, to which the k-th interface is near, or begins at the only one and ends anywhere.
/// `None` if NVLinks alone make none.
pub(super) fn paths(capacities: &[Vec<f64>], speeds: &[f64], near: &[Vec<u32>]) -> Option<Found> {
    best(capacities, speeds, near.len(), Some(near))
}

fn best(
    capacities: &[Vec<f64>],
    speeds: &[f64],
    most: usize,
    near: Option<&[Vec<u32>]>,
) -> Option<Found> {
    let n = capacities.len();
    if n < 2 {
        return None;
    }
    let widest = capacities.iter().flatten().copied().fold(0.0, f64::max);
    let mut best: Option<Found> = None;
    let worth = |b: &Option<Found>| {
        b.as_ref()
            .map_or(0.0, |(found, speed)| found.len() as f64 * speed)
    };
    for &speed in speeds.iter().filter(|&&s| s <= widest) {
        if let Some((_, found)) = &best
            && speed / found <= 0.49
        {
            break;
        }
        let out: Vec<f64> = capacities.iter().map(|row| row.iter().sum()).collect();
        let least = out.iter().copied().fold(f64::INFINITY, f64::min);
        let bound = match near {
            Some(near) => near.len().min(most),
            None => ((least / speed) as usize).min(most),
        };
        if bound as f64 * speed <= worth(&best) {
            continue;
        }
        let mut search = Search {
            // Whole rings per link are all that counts.
            left: capacities
                .iter()
                .map(|row| row.iter().map(|c| (c / speed) as u32).collect())
                .collect(),
            near,
            bound,
            found: Vec::new(),
            best: Vec::new(),
            steps: MOST_STEPS,
        };
        search.another();
        if search.best.len() as f64 * speed > worth(&best) {
            best = Some((search.best, speed));
        }
    }
    best
}

struct Search<'n> {
    left: Vec<Vec<u32>>,
    /// Of paths; rings begin and end at the first GPU.
    near: Option<&'n [Vec<u32>]>,
    bound: usize,
    found: Vec<Vec<u32>>,
    best: Vec<Vec<u32>>,
    steps: u32,
}

impl Search<'_> {
    /// Looks for one more; true if there is nothing better to be found.
    fn another(&mut self) -> bool {
        let starts = self.near.map_or(&[0][..], |near| &near[self.found.len()]);
        starts.iter().any(|&start| self.go_on(&mut vec![start]))
    }

    /// Goes on from the last GPU of `order`; true if there is nothing better to be found.
    fn go_on(&mut self, order: &mut Vec<u32>) -> bool {
        if self.steps == 0 {
            return true;
        }
        self.steps -= 1;
        let n = self.left.len();
        let (first, at) = (order[0] as usize, order[order.len() - 1] as usize);
        if order.len() == n {
            let closed = u32::from(self.near.is_none());
            let ends = match self.near.map(|near| &near[self.found.len()]) {
                Some(near) => near.len() < 2 || near.contains(&(at as u32)),
                None => self.left[at][first] > 0,
            };
            if !ends {
                return false;
            }
            self.left[at][first] -= closed;
            self.found.push(order.clone());
            if self.found.len() > self.best.len() {
                self.best.clone_from(&self.found);
            }
            let done = self.best.len() >= self.bound || self.another();
            self.found.pop();
            self.left[at][first] += closed;
            return done;
        }
        // The widest links first: narrow ones are what runs out.
        let mut next: Vec<usize> = (0..n)
            .filter(|&to| self.left[at][to] > 0 && !order.contains(&(to as u32)))
            .collect();
        next.sort_by_key(|&to| std::cmp::Reverse(self.left[at][to]));
        for to in next {
            self.left[at][to] -= 1;
            order.push(to as u32);
            let done = self.go_on(order);
            order.pop();
            self.left[at][to] += 1;
            if done {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speeds of NCCL before SM90.
    const SPEEDS: [f64; 13] = [40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.];

    /// DGX-1 with V100: pairs of GPUs, and how many links of 20 GB/s join them.
    fn dgx1(gpus: usize) -> Vec<Vec<f64>> {
        let links = [
            (0, 1, 1),
            (0, 2, 1),
            (0, 3, 2),
            (0, 4, 2),
            (1, 2, 2),
            (1, 3, 1),
            (1, 5, 2),
            (2, 3, 2),
            (2, 6, 1),
            (3, 7, 1),
            (4, 5, 1),
            (4, 6, 1),
            (4, 7, 2),
            (5, 6, 2),
            (5, 7, 1),
            (6, 7, 2),
        ];
        let mut all = vec![vec![0.0; gpus]; gpus];
        for (a, b, count) in links {
            if a < gpus && b < gpus {
                all[a][b] = 20.0 * f64::from(count);
                all[b][a] = all[a][b];
            }
        }
        all
    }

    /// Published bus bandwidths of the first N GPUs of a DGX-1 are 1, 2, 3.8 and 6 times a
    /// link's (vTrain: N = 2, 3, 4, 8; the last on all its links).
    #[test]
    fn the_cube_mesh_has_as_many_rings_as_measured() {
        for (gpus, rings_at_20) in [(2, 1.0), (3, 2.0), (4, 4.0), (8, 6.0)] {
            let (found, speed) = rings(&dgx1(gpus), &SPEEDS, 32).unwrap();
            assert_eq!(
                found.len() as f64 * speed,
                20.0 * rings_at_20,
                "{gpus} GPUs"
            );
            for ring in &found {
                let mut sorted = ring.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..gpus as u32).collect::<Vec<_>>());
            }
        }
    }

    /// Each pair of GPUs has an interface: every path goes from one of the two to the other, past all
    /// of them, and no link is in more of them than it carries.
    #[test]
    fn the_cube_mesh_has_a_path_for_each_interface() {
        let all = dgx1(8);
        let near: Vec<Vec<u32>> = (0..4).map(|k| vec![2 * k, 2 * k + 1]).collect();
        let (found, speed) = paths(&all, &[15., 12., 10.], &near).unwrap();
        assert_eq!((found.len(), speed), (4, 15.0));
        let mut used = vec![vec![0.0; 8]; 8];
        for (path, near) in found.iter().zip(&near) {
            let mut sorted = path.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..8).collect::<Vec<_>>());
            assert!(near.contains(&path[0]) && near.contains(&path[7]));
            for pair in path.windows(2) {
                used[pair[0] as usize][pair[1] as usize] += speed;
            }
        }
        for (used, all) in used.iter().flatten().zip(all.iter().flatten()) {
            assert!(used <= all);
        }
    }

    #[test]
    fn a_quad_uses_all_its_links() {
        let all: Vec<Vec<f64>> = (0..4)
            .map(|i| (0..4).map(|j| if i == j { 0.0 } else { 80.0 }).collect())
            .collect();
        let (found, speed) = rings(&all, &SPEEDS, 32).unwrap();
        assert_eq!(found.len() as f64 * speed, 240.0);
    }

    #[test]
    fn without_a_way_around_there_is_no_ring() {
        let mut chain = vec![vec![0.0; 3]; 3];
        (chain[0][1], chain[1][2]) = (20.0, 20.0);
        assert_eq!(rings(&chain, &SPEEDS, 32), None);
    }
}
