//! Why the page cannot be served.

use std::io;
use thiserror::Error;

/// Why the page cannot be served.
#[derive(Debug, Error)]
pub enum LabError {
    /// No port is free.
    #[error(
        "--port {first}: none of the ports {first} to {last} of 127.0.0.1 can be had: {source}"
    )]
    Port {
        /// The one that was asked for.
        first: u16,
        /// The last that was tried.
        last: u16,
        /// What was wrong with it.
        source: io::Error,
    },
    /// The system gives no random numbers for the page's token.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The system gives no runtime.
    #[error("cannot wait for requests: {0}")]
    Runtime(#[from] io::Error),
}
