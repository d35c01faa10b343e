//! Serving: schedulers beside an independent one, hand-overs against closed forms, and how it ends badly.

mod bad_ends;
mod beside;
mod handover;
mod measured;
mod oracle;
mod policies;
mod scenario;
mod steady;
mod tiers;
