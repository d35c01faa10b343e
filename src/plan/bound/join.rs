//! Sets of devices that grow together.

use fabricsim_topology::DeviceId;

/// Disjoint sets of devices, each known by one of its members.
#[derive(Debug, Clone)]
pub(super) struct Sets {
    above: Vec<u32>,
}

impl Sets {
    /// Each of so many devices alone.
    pub(super) fn alone(devices: usize) -> Self {
        Sets {
            above: (0..devices as u32).collect(),
        }
    }

    /// The member by which the set of a device is known.
    pub(super) fn of(&mut self, device: DeviceId) -> DeviceId {
        let mut at = device.0;
        while self.above[at as usize] != at {
            let next = self.above[self.above[at as usize] as usize];
            self.above[at as usize] = next;
            at = next;
        }
        DeviceId(at)
    }

    /// Makes one set of two.
    pub(super) fn join(&mut self, a: DeviceId, b: DeviceId) {
        let (a, b) = (self.of(a), self.of(b));
        // The smaller number stands for both, whatever the order.
        let (low, high) = (a.min(b), a.max(b));
        self.above[high.index()] = low.0;
    }
}
