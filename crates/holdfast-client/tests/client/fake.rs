//! A server that answers as a test's script says, also in ways that the real one never would.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A request, as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The last part of the path: `acquire`, `renew`, `release` and so on, or a lock's name.
    pub(crate) action: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Seen {
    pub(crate) fn token(&self) -> &str {
        self.body["token"].as_str().unwrap_or("")
    }

    pub(crate) fn wait_ms(&self) -> u64 {
        self.body["wait_ms"].as_u64().unwrap_or(0)
    }
}

/// What to do about a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status and a body.
    Body(u16, String),
    /// Another reply, but later.
    Later(Duration, Box<Reply>),
    /// No answer, ever.
    Hang,
    /// The connection is closed without an answer.
    HangUp,
}

impl Reply {
    pub(crate) fn later(self, after: Duration) -> Self {
        Self::Later(after, Box::new(self))
    }
}

/// An error as the service writes it.
pub(crate) fn problem(status: u16, code: &str) -> Reply {
    Reply::Body(
        status,
        json!({"code": code, "detail": format!("scripted {code}"), "status": status}).to_string(),
    )
}

/// The grant that a request asks for, with a field that no client knows.
pub(crate) fn grant(seen: &Seen, fence: u64) -> Reply {
    let ttl_ms = seen.body["ttl_ms"].as_u64().unwrap_or(30_000);
    let owner = seen.body["owner"].as_str().unwrap_or("anonymous");
    let grant = json!({
        "name": "db", "owner": owner, "token": seen.token(), "fence": fence, "ttl_ms": ttl_ms,
        "expires_in_ms": ttl_ms, "metadata": {}, "of_the_future": [1, 2],
    });
    Reply::Body(200, grant.to_string())
}

/// The lead that a campaign asks for, or that a proclamation changes.
pub(crate) fn lead(seen: &Seen, fence: u64) -> Reply {
    let ttl_ms = seen.body["ttl_ms"].as_u64().unwrap_or(30_000);
    let lead = json!({
        "name": "db", "owner": seen.body["owner"], "token": seen.token(), "fence": fence, "ttl_ms": ttl_ms,
        "expires_in_ms": ttl_ms, "value": seen.body["value"], "of_the_future": null,
    });
    Reply::Body(200, lead.to_string().replace("\"owner\":null", "\"owner\":\"anonymous\""))
}

pub(crate) fn handed_over(seen: &Seen, fence: u64) -> Reply {
    let told = json!({"name": "db", "fence": fence, "to": seen.body["to"], "handed_over": true});
    Reply::Body(200, told.to_string())
}

/// The same of many locks: the first has this fence, each other one the next.
fn grant_many(seen: &Seen, ttl_ms: u64, first: u64) -> Reply {
    let names = seen.body["locks"].as_array().map(|locks| locks.iter().map(|lock| &lock["name"]).collect());
    let names: Vec<_> = names.unwrap_or_else(|| seen.body["names"].as_array().unwrap().iter().collect());
    let grants: Vec<_> =
        names.iter().zip(first..).map(|(name, fence)| json!({"name": name, "fence": fence})).collect();
    let grant = json!({
        "token": seen.token(), "ttl_ms": ttl_ms, "expires_in_ms": ttl_ms, "grants": grants, "of_the_future": 1,
    });
    Reply::Body(200, grant.to_string())
}

pub(crate) fn released(fence: u64) -> Reply {
    Reply::Body(200, json!({"name": "db", "fence": fence, "released": true}).to_string())
}

/// Grants, renews and releases whatever is asked for. Renewals are told the TTL that was granted.
pub(crate) fn agree(seen: &Seen, ttl_ms: u64) -> Reply {
    match seen.path.as_str() {
        "/v1/acquire" | "/v1/renew" => return grant_many(seen, ttl_ms, 7),
        "/v1/release" => return Reply::Body(200, json!({"released": true, "locks": []}).to_string()),
        _ => {}
    }
    match seen.action.as_str() {
        "acquire" => grant(seen, 7),
        "renew" => {
            let mut seen = seen.clone();
            seen.body["ttl_ms"] = ttl_ms.into();
            grant(&seen, 7)
        }
        "release" | "resign" => released(7),
        "campaign" | "proclaim" => lead(seen, 7),
        "hand-over" => handed_over(seen, 7),
        _ => Reply::Body(200, "ready".into()),
    }
}

type Script = Box<dyn FnMut(&Seen) -> Reply + Send>;

struct State {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
    open: AtomicUsize,
    open_max: AtomicUsize,
}

/// A running server. It is gone, with all its connections, when it is dropped.
pub(crate) struct Fake {
    url: String,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(script: impl FnMut(&Seen) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            script: Mutex::new(Box::new(script)),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, state.clone()));
        Self { url, state, accepting }
    }

    /// Gives these replies, one after the other, and the last one for ever.
    pub(crate) async fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<_> = replies.into_iter().collect();
        Self::start(move |_| match replies.len() {
            1 => replies[0].clone(),
            _ => replies.pop_front().unwrap(),
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Follows another script from now on.
    pub(crate) fn now(&self, script: impl FnMut(&Seen) -> Reply + Send + 'static) {
        *self.state.script.lock().unwrap() = Box::new(script);
    }

    /// All requests so far with this action.
    pub(crate) fn seen(&self, action: &str) -> Vec<Seen> {
        self.state.seen.lock().unwrap().iter().filter(|seen| seen.action == action).cloned().collect()
    }

    /// All requests so far.
    pub(crate) fn all(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Returns when this many requests with an action have come in.
    pub(crate) async fn until_seen(&self, action: &str, count: usize) {
        let mut changes = self.state.count.subscribe();
        let enough = changes.wait_for(|_| self.seen(action).len() >= count);
        tokio::time::timeout(Duration::from_secs(20), enough)
            .await
            .unwrap_or_else(|_| panic!("{count} times {action} expected, seen: {:?}", self.all()))
            .unwrap();
    }

    /// The most connections that were open at one time.
    pub(crate) fn open_max(&self) -> usize {
        self.state.open_max.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => { connections.spawn(serve(stream, state.clone())); }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let open = state.open.fetch_add(1, Ordering::SeqCst) + 1;
    state.open_max.fetch_max(open, Ordering::SeqCst);
    let service = service_fn(|request| answer(request, &state));
    // An error is a connection that a script or the client has closed.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    state.open.fetch_sub(1, Ordering::SeqCst);
}

/// An error of the service makes hyper close the connection.
async fn answer(request: Request<Incoming>, state: &State) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let seen = Seen {
        action: path.rsplit('/').next().unwrap_or("").into(),
        path,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        at: Instant::now(),
    };
    let reply = {
        let reply = (state.script.lock().unwrap())(&seen);
        state.seen.lock().unwrap().push(seen);
        reply
    };
    state.count.send_modify(|count| *count += 1);
    carry_out(reply).await
}

async fn carry_out(reply: Reply) -> Result<Response<Full<Bytes>>, std::io::Error> {
    match reply {
        // As text/html on purpose: what counts is the body.
        Reply::Body(status, body) => Ok(Response::builder()
            .status(status)
            .header("content-type", "text/html")
            .body(Full::new(body.into()))
            .unwrap()),
        Reply::Later(after, reply) => {
            tokio::time::sleep(after).await; // A slow server is what is tested.
            Box::pin(carry_out(*reply)).await
        }
        Reply::Hang => match std::future::pending::<Infallible>().await {},
        Reply::HangUp => Err(std::io::Error::other("the script hangs up")),
    }
}
