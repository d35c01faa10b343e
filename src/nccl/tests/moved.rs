//! What environment variables move: traffic and bounds, as documented.

use super::*;
