//! The frame of a page: one file that needs no network and no other file.

use fabricsim_units::text::xml;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of all pages.
pub const STYLE: &str = include_str!("assets/page.css");

/// What pages of jobs and of comparisons have beside it.
pub const JOBS_STYLE: &str = include_str!("assets/jobs.css");

/// A whole page with `body` inside the frame and `scripts` after it. The page forbids
/// itself to load anything.
#[must_use]
pub fn page(title: &str, body: &Markup, scripts: &[&str]) -> String {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
                @for script in scripts {
                    script { (PreEscaped(script)) }
                }
            }
        }
    }
    .into_string();
    // HTML allows what XML does, and drawings in a page are the files.
    xml(&page).into_owned()
}

/// JSON for reading by the page's own scripts, which find it in the element that it is in. `json`
/// must be JSON: there, `<` occurs in strings only, and can be written as an escape.
#[must_use]
pub fn data(json: &str) -> Markup {
    let safe = json.replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(safe)) } }
}

/// A drawing set into the page as it is; text before its `<svg` (an XML declaration, a
/// document type) has no place inside HTML and is dropped.
#[must_use]
pub fn drawing(svg: &str) -> Markup {
    let start = svg.find("<svg").unwrap_or(0);
    html! { (PreEscaped(&svg[start..])) }
}
