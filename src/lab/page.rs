//! The page: controls beside what follows from them. It loads nothing from elsewhere.

use crate::choices::Choices;
use fabricsim_experiment::ScenarioError;
use fabricsim_report::html::{JOBS_STYLE, SCRIPT as TIMELINE, STYLE, data};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::json;

const OWN_STYLE: &str = include_str!("assets/lab.css");
const CURVE: &str = include_str!("assets/curve.js");
const SCRIPT: &str = include_str!("assets/lab.js");

/// What the page may load: its own script, and answers of this server.
pub(crate) fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The page with the token that its requests have to show.
///
/// # Errors
/// A shipped file that is none.
pub(crate) fn page(token: &str, nonce: &str) -> Result<String, ScenarioError> {
    let known = json!({ "token": token, "choices": Choices::of_catalogues()? });
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "fabricsim lab" }
                style { (PreEscaped(STYLE)) (PreEscaped(JOBS_STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                main.lab {
                    (answer())
                    (controls())
                    (results())
                }
                div #known hidden { (data(&known.to_string())) }
                @for script in [TIMELINE, CURVE, SCRIPT] {
                    script nonce=(nonce) { (PreEscaped(script)) }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// One number and one sentence.
fn answer() -> Markup {
    html! {
        section.answer aria-live="polite" {
            p.number-line { span #number { "…" } span.aside #title {} }
            p.lead #sentence {}
            p.bad #refused role="alert" hidden {}
            div #tiles {}
        }
    }
}

/// A line of controls: its name, what it holds, and the place for what is wrong with it.
fn control(name: &str, label: &str, inner: &Markup) -> Markup {
    html! {
        div.control data-for=(name) {
            label for=(name) { (label) }
            output for=(name) {}
            (inner)
            p.wrong hidden {}
        }
    }
}

fn slider(id: &str, (min, max, step): (&str, &str, &str)) -> Markup {
    html! { input type="range" id=(id) min=(min) max=(max) step=(step); }
}

fn controls() -> Markup {
    let select = |id: &str| html! { select id=(id) {} };
    html! {
        form.controls #controls autocomplete="off" {
            section {
                h2 { "What runs" }
                (control("job", "job", &select("job")))
                (control("machine", "machine", &select("machine")))
                div.pair {
                    (control("nodes", "nodes", &select("nodes")))
                    (control("gpus", "GPUs of each", &html! { input type="number" id="gpus" min="1" max="72" placeholder="all"; }))
                }
                (control("size", "size", &slider("size", ("10", "30", "1"))))
                (control("bucket", "size of buckets", &slider("bucket", ("18", "29", "1"))))
                div.pair {
                    (control("algorithm", "algorithm", &select("algorithm")))
                    (control("protocol", "protocol", &select("protocol")))
                }
            }
            section {
                h2 { "The machine" }
                div #rates {}
                (control("oversubscription", "oversubscription of leaves", &slider("oversubscription", ("1", "8", "0.5"))))
            }
            section {
                h2 { "What goes wrong" }
                (control("slow", "a slow GPU", &html! {
                    div.with { label for="rank" { "rank" } input type="number" id="rank" min="0" value="0"; }
                    (slider("slow", ("50", "100", "1")))
                }))
                (control("nic", "a slow NIC", &html! {
                    select id="nic-name" aria-label="which NIC" {}
                    (slider("nic", ("10", "100", "5")))
                }))
                (control("kill", "a NIC that has failed", &select("kill")))
                (control("env", "NCCL's variables", &html! { input type="text" id="env" placeholder="NCCL_NTHREADS=256" spellcheck="false"; }))
            }
            div.buttons {
                button type="button" #pin-a { "Pin as A" }
                button type="button" #pin-b { "Pin as B" }
                button type="button" #save { "Save scenario" }
                button type="button" #reset { "Start again" }
            }
        }
    }
}

fn results() -> Markup {
    html! {
        div.results-side {
            section #curve-section hidden {
                h2 { "Curve" span.aside #curve-aside {} }
                div.curve-tools { button type="button" #measure {} }
                div #curve {}
            }
            section #pinned hidden {
                h2 { "Two states" }
                p.note #pins {}
                div #waterfall {}
            }
            section #time-section hidden { h2 { "Where the time went" } div #time {} }
            section #drawing-section hidden { h2 { "Machine" span.aside { "as busy as its links were" } } figure.topology #drawing {} }
            section.wide #timeline-section hidden { h2 { "Timeline" } div #timeline {} }
            div #tables {}
            section.warnings #warnings hidden { h2 { "To keep in mind" } ul {} }
            footer { "Served by fabricsim on this computer. The address of this page holds its state." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_its_token_and_loads_nothing() {
        let html = page("0123abcd", "77").unwrap();
        assert!(html.contains("0123abcd"));
        for absent in ["http://", "https://", "src=", "@import"] {
            // Namespaces of SVG are names, not addresses.
            let text = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(absent), "{absent}");
        }
    }
}
