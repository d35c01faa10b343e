//! What runs on the machine beside single collectives: models, and what they compute and send.

pub mod model;
