//! Policies against slow, obvious ones, and by their invariants.
