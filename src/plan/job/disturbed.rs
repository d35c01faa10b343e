//! What disturbs a job from outside.

use super::{ActorId, Kernels, Tag, TaskId};
use fabricsim_topology::LinkId;
use fabricsim_units::Time;

/// What disturbs a job from outside. Times are since the job began.
pub trait JobDisturbances: Sync {
    /// How fast a rank's GPU is at a time (1: as it should be, 0: not at all), and when that
    /// changes next.
    fn speed(&self, _rank: u32, _at: Time) -> (f64, Option<Time>) {
        (1.0, None)
    }
    /// What kernels of an actor, on its rank's GPU, really take.
    fn kernels(&self, _of: (ActorId, u32), _task: TaskId, _tag: Tag, kernels: Kernels) -> Kernels {
        kernels
    }
    /// What is left of a link's rate at a time.
    fn link(&self, _link: LinkId, _at: Time) -> f64 {
        1.0
    }
    /// Links that are ever disturbed.
    fn links(&self) -> Vec<LinkId> {
        Vec::new()
    }
    /// When a link changes next, after a time.
    fn next_link_change(&self, _after: Time) -> Option<Time> {
        None
    }
}

/// Nothing disturbs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Undisturbed;

impl JobDisturbances for Undisturbed {}
