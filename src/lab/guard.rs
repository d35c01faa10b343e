//! Who may ask: this computer's own pages, and with the token that is in them.

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode};

/// The header with the page's token.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-lab-token");

/// What a request has to show.
#[derive(Debug)]
pub(crate) struct Guard {
    /// What `Host` may be.
    hosts: [String; 2],
    /// In the page, and in each of its requests.
    pub(crate) token: String,
}

impl Guard {
    pub(crate) fn new(port: u16, token: String) -> Guard {
        Guard {
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
            token,
        }
    }

    /// Whether a request may be answered. A page of another name that resolves to this computer has
    /// that name as its `Host`; one of another origin has no token.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, &'static str)> {
        let refused = |why| Err((StatusCode::FORBIDDEN, why));
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // Names of hosts ignore case.
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let mut hosts = headers.get_all(HOST).iter();
        let one = hosts.next().is_some() && hosts.next().is_none();
        if !one || !text(HOST).is_some_and(is_own) {
            return refused("Host: expected 127.0.0.1 or localhost, and the port of this page\n");
        }
        let foreign = |origin: &str| !origin.strip_prefix("http://").is_some_and(is_own);
        if headers.contains_key(ORIGIN) && text(ORIGIN).is_none_or(foreign) {
            return refused("Origin: expected this page's own\n");
        }
        if method == Method::POST && !text(TOKEN).is_some_and(|token| same(token, &self.token)) {
            return refused("x-lab-token: expected the token of this page; load it again\n");
        }
        Ok(())
    }
}

/// Compares all of both, however early they differ.
fn same(a: &str, b: &str) -> bool {
    let differ = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differ == 0
}
