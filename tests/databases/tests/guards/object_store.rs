//! An object store small enough to read: GET and conditional PUT over HTTP, objects in memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

type Objects = HashMap<String, Vec<u8>>;

/// A store that serves until the process ends.
pub(crate) struct ObjectStore {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    objects: Mutex<Objects>,
    /// Where the next PUT says that it has arrived, and waits until it may go on.
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

/// Holds one PUT at the door, until it is dropped.
pub(crate) struct Gate {
    arrived: Receiver<()>,
    _held: Sender<()>,
}

impl Gate {
    pub(crate) fn wait_for_the_put(&self) {
        self.arrived.recv().unwrap();
    }
}

struct Request {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl ObjectStore {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::<Shared>::default();
        let store = Self { address, shared: Arc::clone(&shared) };
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(&connection.unwrap(), &shared));
            }
        });
        store
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub(crate) fn put(&self, name: &str, body: &str) {
        self.shared.objects.lock().unwrap().insert(format!("/{name}"), body.into());
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let objects = self.shared.objects.lock().unwrap();
        objects.get(&format!("/{name}")).map(|body| String::from_utf8(body.clone()).unwrap())
    }

    /// Holds the next PUT, before its condition is looked at.
    pub(crate) fn hold_the_next_put(&self) -> Gate {
        let (arrives, arrived) = mpsc::channel();
        let (_held, goes_on) = mpsc::channel();
        *self.shared.gate.lock().unwrap() = Some((arrives, goes_on));
        Gate { arrived, _held }
    }
}

fn serve(mut connection: &TcpStream, shared: &Shared) {
    let request = read(connection);
    let gate = (request.method == "PUT").then(|| shared.gate.lock().unwrap().take()).flatten();
    if let Some((arrives, goes_on)) = gate {
        arrives.send(()).unwrap();
        let _ = goes_on.recv(); // Comes back with an error once the gate is dropped.
    }
    let (status, body) = answer(&request, &mut shared.objects.lock().unwrap());
    let (etag, length) = (etag(&body), body.len());
    let head = format!(
        "HTTP/1.1 {status} -\r\nETag: {etag}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(&[head.as_bytes(), &body].concat()).unwrap();
}

fn answer(request: &Request, objects: &mut Objects) -> (u16, Vec<u8>) {
    let found = objects.get(&request.path);
    match request.method.as_str() {
        "GET" => found.map_or((404, Vec::new()), |body| (200, body.clone())),
        "PUT" if may_overwrite(request, found) => {
            objects.insert(request.path.clone(), request.body.clone());
            (200, Vec::new())
        }
        "PUT" => (412, Vec::new()),
        _ => (405, Vec::new()),
    }
}

fn may_overwrite(Request { headers, .. }: &Request, found: Option<&Vec<u8>>) -> bool {
    let is_as_read = |expected: &String| found.is_some_and(|body| etag(body) == *expected);
    headers.get("if-match").is_none_or(is_as_read)
        && (!headers.contains_key("if-none-match") || found.is_none())
}

/// Of the content alone, as many stores have it: the same content has the same tag, whoever has written it.
fn etag(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

fn read(connection: &TcpStream) -> Request {
    let mut reader = BufReader::new(connection);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let headers: HashMap<_, _> = std::iter::from_fn(|| {
        let line = line();
        line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()))
    })
    .collect();
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Request { method, path, headers, body }
}
