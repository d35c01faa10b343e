//! The one font of the plots, carried in the binary: a plot has the same bytes on every
//! machine, fonts installed or not.

use super::ReportError;
use plotters::style::{FontStyle, register_font};
use std::sync::OnceLock;

/// DejaVu Sans, cut to Latin-1, Greek, arrows, sub- and superscripts and a few signs of
/// mathematics; its licence is `DejaVuSans-LICENSE.txt` beside it.
pub(super) const BYTES: &[u8] = include_bytes!("assets/DejaVuSans-subset.ttf");

/// The family that plots ask for. An SVG shows it in the reader's own font.
pub(super) const FAMILY: &str = "sans-serif";

/// Makes the font known to plotters; without it, drawing text is an error.
pub(super) fn register() -> Result<(), ReportError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    if *DONE.get_or_init(|| register_font(FAMILY, FontStyle::Normal, BYTES).is_ok()) {
        Ok(())
    } else {
        Err(ReportError::Plot("the bundled font cannot be read".into()))
    }
}
