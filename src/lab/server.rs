//! The server: on 127.0.0.1 alone, few connections, small bodies, nothing waited for without end.

use crate::answer::{Bench, Event, Out, answer, compare, export};
use crate::connections::{Connection, Connections};
use crate::error::LabError;
use crate::guard::Guard;
use crate::page::{page, policy};
use crate::queue::{Queue, Worker};
use crate::state::{Refusal, State};
use fabricsim_budget::{Budget, Stop};
use fabricsim_experiment::Machines;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// A body is a state, which is short.
const MAX_BYTES: usize = 1_000_000;
/// Connections at once; a browser opens six.
const MAX_CONNECTIONS: usize = 64;
/// A request's head, and its body, come within this; an answer that is whole is read within it.
const READ: Duration = Duration::from_secs(10);
/// So long after it was begun a request gets no more points.
const LONGEST: Duration = Duration::from_secs(60);
/// One that is not begun within this is not answered at all.
const WAITS: Duration = Duration::from_secs(60);
/// Workers beside those that simulate curves, for what is asked for first.
const SPARE: usize = 3;
/// Ports that are tried from the first one on.
const PORTS: u16 = 20;

/// Serves the page until the program ends. The first free port from `port` on is taken; `ready` gets
/// the address.
///
/// # Errors
/// No free port, or a system that gives no random numbers.
pub fn serve(port: u16, budget: Budget, ready: impl FnOnce(&str)) -> Result<(), LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    runtime.block_on(async {
        let listener = listen(port).await?;
        let port = listener.local_addr()?.port();
        let lab = Lab::new(port, budget)?;
        ready(&format!("http://127.0.0.1:{port}/"));
        lab.accept(&listener).await;
        Ok(())
    })
}

/// The first port that is free; 0 is any.
async fn listen(first: u16) -> Result<TcpListener, LabError> {
    let last = match first {
        0 => 0,
        first => first.saturating_add(PORTS - 1),
    };
    let mut port = first;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(_) if port < last => port += 1,
            Err(source) => {
                return Err(LabError::Port {
                    first,
                    last,
                    source,
                });
            }
        }
    }
}

struct Lab {
    guard: Guard,
    bench: Arc<Bench>,
    queue: Arc<Queue>,
}

/// A request's body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    /// Which page asks, by a name that it gives itself.
    page: String,
    /// How many states it has asked for.
    generation: u64,
    state: State,
    /// Places on the curve that it knows already.
    #[serde(default)]
    have: Vec<u64>,
    /// A state to be set beside it.
    #[serde(default)]
    beside: Option<State>,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Lab {
    fn new(port: u16, budget: Budget) -> Result<Arc<Lab>, LabError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(LabError::Random)?;
        let token = random.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let queue = Arc::new(Queue::default());
        let all = (0..budget.threads.max(1)).map(|_| Worker::OfAll);
        for worker in all.chain([Worker::OfFirsts; SPARE]) {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.work(worker));
        }
        Ok(Arc::new(Lab {
            guard: Guard::new(port, token),
            bench: Arc::new(Bench {
                budget,
                machines: Machines::default(),
            }),
            queue,
        }))
    }

    async fn accept(self: &Arc<Self>, listener: &TcpListener) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = Connections::default();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of files, for a while.
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            // For one too many the oldest goes that has asked for nothing that takes a while; if there is none, it
            // is closed itself.
            let place = match Arc::clone(&room).try_acquire_owned() {
                Ok(place) => place,
                Err(_) if connections.close_oldest() => {
                    let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                        continue;
                    };
                    place
                }
                Err(_) => continue,
            };
            let lab = Arc::clone(self);
            let connection = connections.open();
            let own = connection.clone();
            let task = tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (lab, own) = (Arc::clone(&lab), own.clone());
                    async move { Ok::<_, Infallible>(lab.respond(request, &own).await) }
                });
                // One that breaks off is no fault of the server's.
                let answered = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(READ)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                let _ = timeout(WAITS + LONGEST + 3 * READ, answered).await;
                drop(place);
            });
            connection.is(task.abort_handle());
        }
    }

    async fn respond(&self, request: Request<Incoming>, connection: &Connection) -> Answer {
        if let Err((status, why)) = self.guard.check(request.method(), request.headers()) {
            return text(status, why);
        }
        let path = request.uri().path().to_owned();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/") => self.page(),
            (&Method::POST, "/run" | "/scenario") => match read(request.into_body()).await {
                Ok(asking) if path == "/run" => {
                    connection.stays();
                    self.run(asking)
                }
                Ok(asking) => self.scenario(asking.state).await,
                Err(answer) => answer,
            },
            (_, "/" | "/run" | "/scenario") => text(
                StatusCode::METHOD_NOT_ALLOWED,
                "GET /, POST /run, POST /scenario\n",
            ),
            _ => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }

    fn page(&self) -> Answer {
        let mut random = [0; 8];
        let nonce = match getrandom::fill(&mut random) {
            Ok(()) => u64::from_ne_bytes(random),
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        };
        let nonce = format!("{nonce:016x}");
        match page(&self.guard.token, &nonce) {
            Ok(html) => {
                let mut answer = whole(StatusCode::OK, "text/html; charset=utf-8", html);
                if let Ok(policy) = HeaderValue::from_str(&policy(&nonce)) {
                    answer
                        .headers_mut()
                        .insert(header::CONTENT_SECURITY_POLICY, policy);
                }
                answer
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        }
    }

    /// Lines of JSON, as they come.
    fn run(&self, asking: Asking) -> Answer {
        let (sender, lines) = unbounded_channel();
        let out = Out(sender);
        let stop = Stop::default();
        let bench = Arc::clone(&self.bench);
        let (begun, begins) = oneshot::channel();
        let Asking {
            page,
            generation,
            state,
            have,
            beside,
        } = asking;
        let queued = self.queue.push(
            (page, generation),
            Box::new(move |run| {
                // Whoever counts the time may be gone.
                let _ = begun.send(());
                match beside {
                    None => answer(&bench, (&state, &have), run, &out),
                    Some(beside) => compare(&bench, (&state, &beside), run, &out),
                }
            }),
            stop.clone(),
        );
        if queued.is_err() {
            return text(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many pages wait for results\n",
            );
        }
        let limit = tokio::spawn(given_up(begins, stop.clone(), (WAITS, LONGEST)));
        let lines = Lines {
            lines,
            stop,
            limit,
            told: false,
            over: false,
        };
        let mut answer = Response::new(BoxBody::new(lines));
        set(&mut answer, "application/x-ndjson");
        answer
    }

    async fn scenario(&self, state: State) -> Answer {
        // A large machine takes a while, in which others are answered.
        let bench = Arc::clone(&self.bench);
        let exported = tokio::task::spawn_blocking(move || export(&bench, &state)).await;
        let exported = match exported {
            Ok(exported) => exported,
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        };
        match exported {
            Ok(json) => whole(StatusCode::OK, "application/json", json),
            Err(Refusal { control, message }) => {
                let json = json!({ "control": control, "message": message });
                whole(
                    StatusCode::BAD_REQUEST,
                    "application/json",
                    json.to_string(),
                )
            }
        }
    }
}

/// Waits until a request's time is over, ends the work for it, and gives the line that says so.
async fn given_up(
    begins: oneshot::Receiver<()>,
    stop: Stop,
    (waits, longest): (Duration, Duration),
) -> Vec<u8> {
    let message = match timeout(waits, begins).await {
        Ok(_) => {
            sleep(longest).await;
            format!(
                "given up after {} s of work: a smaller size, fewer nodes or no fault takes less",
                longest.as_secs()
            )
        }
        Err(_) => format!(
            "given up after {} s, in which the lab was busy with other states: try again",
            waits.as_secs()
        ),
    };
    stop.now();
    Event::GivenUp { message }.line()
}

/// A body, as far as it may go.
async fn read(body: Incoming) -> Result<Asking, Answer> {
    let whole = Limited::new(body, MAX_BYTES).collect();
    let whole = match timeout(READ, whole).await {
        Err(_) => {
            return Err(text(
                StatusCode::REQUEST_TIMEOUT,
                "the body does not come\n",
            ));
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = "the body is too long: expected at most 1 MB\n";
            return Err(text(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        Ok(Err(error)) => return Err(text(StatusCode::BAD_REQUEST, &format!("{error}\n"))),
        Ok(Ok(whole)) => whole.to_bytes(),
    };
    serde_json::from_slice(&whole).map_err(|error| {
        text(
            StatusCode::BAD_REQUEST,
            &format!("the body is no request: {error}\n"),
        )
    })
}

fn text(status: StatusCode, why: &str) -> Answer {
    whole(status, "text/plain; charset=utf-8", why.to_owned())
}

fn whole(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(BoxBody::new(Full::new(Bytes::from(body))));
    *answer.status_mut() = status;
    set(&mut answer, kind);
    answer
}

fn set(answer: &mut Answer, kind: &'static str) {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Lines as they come, one at least. When nobody reads them any more, the work for them ends.
struct Lines {
    lines: UnboundedReceiver<Vec<u8>>,
    stop: Stop,
    /// Gives the last line, when the time is over.
    limit: tokio::task::JoinHandle<Vec<u8>>,
    told: bool,
    over: bool,
}

impl Lines {
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(line) = self.lines.poll_recv(context) {
            self.over = line.is_none();
            let overtaken = || {
                let message = "not begun: this page has asked for another state since".to_owned();
                Event::GivenUp { message }.line()
            };
            let line = line.or_else(|| (!self.told).then(overtaken));
            self.told = true;
            return Poll::Ready(line);
        }
        // Whoever works on it may not have noticed yet.
        let limit = Pin::new(&mut self.limit).poll(context);
        limit.map(|last| {
            self.over = true;
            last.ok()
        })
    }
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let line = self.poll_line(context);
        line.map(|line| line.map(|line| Ok(Frame::data(Bytes::from(line)))))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.stop.now();
        self.limit.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(600);

    /// What an answer says until it ends, of a request that is `begun` or waits, and whether its work is to end.
    fn told(begun: bool, line: Option<&str>, limits: (Duration, Duration)) -> (String, bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            // Work goes on: the senders are there until the end.
            let (sender, lines) = unbounded_channel();
            let (begin, begins) = oneshot::channel();
            let stop = Stop::default();
            let limit = tokio::spawn(given_up(begins, stop.clone(), limits));
            let answer = Lines {
                lines,
                stop: stop.clone(),
                limit,
                told: false,
                over: false,
            };
            if let Some(line) = line {
                sender.send(line.as_bytes().to_vec()).unwrap();
            }
            let waiting = match begun {
                true => {
                    begin.send(()).unwrap();
                    None
                }
                false => Some(begin),
            };
            let whole = answer.collect().await.unwrap().to_bytes();
            drop((sender, waiting));
            (String::from_utf8(whole.to_vec()).unwrap(), stop.is_now())
        })
    }

    #[test]
    fn the_time_of_a_request_counts_from_where_it_is_begun_and_its_end_is_told() {
        let (text, ends) = told(true, Some("a point\n"), (LONG, MOMENT));
        assert!(text.starts_with("a point\n{"), "{text}");
        assert!(
            text.contains("\"given_up\"") && text.contains("of work"),
            "{text}"
        );
        assert!(ends);
        // One that nobody begins is told of, too.
        let (text, ends) = told(false, None, (MOMENT, LONG));
        assert!(
            text.contains("\"given_up\"") && text.contains("busy with other"),
            "{text}"
        );
        assert!(ends);
    }
}
