//! The links between a network's switches, and whether a job used them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links between switches of the networks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uplinks {
    /// How many, each direction by itself.
    pub links: u64,
    /// What all of them carry together, GB/s.
    pub gbs: f64,
    /// Of leaf switches, those that have the least above them: the rate of what is below over that of
    /// what is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// Whether the job sent anything over any of them.
    pub carried: bool,
}

impl Uplinks {
    /// Why an oversubscription costs a job nothing; nothing if there is none, or it may cost something.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let ratio = self.oversubscription.filter(|&ratio| ratio >= 1.01)?;
        let ratio = (ratio * 100.0).round() / 100.0;
        (!self.carried).then(|| {
            format!(
                "That leaf switches are oversubscribed {ratio}:1 costs nothing here: the links above \
                 them carried 0 B."
            )
        })
    }

    /// Whether these are others, or faster or slower ones, and neither carried anything.
    pub(crate) fn idle_beside(&self, other: &Uplinks) -> bool {
        let differ = (self.links, self.gbs) != (other.links, other.gbs);
        differ && !self.carried && !other.carried
    }
}
