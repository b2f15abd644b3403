//! The floor: a door that reads every request as the node's does and answers the same to all of them without looking at them. What a
//! node costs beyond this is reading, deciding and writing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

use door_http::{App, Limits, Refusal, Reply, Request, Response, Room, Session, Then};
use door_transport::{
    CloseReason, ConnId, Handle, Listeners, Options, Out, Outbox, Peer, Service, Step, Turn,
};

/// Name of its thread.
pub const THREAD: &str = "floor";

/// A floor on a thread of its own, pinned to core 0 where that can be.
pub struct Floor {
    pub address: SocketAddr,
    pub counts: Arc<Counts>,
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

/// What it has done so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests answered.
    pub requests: AtomicU64,
    /// Time in HTTP sessions: from received bytes to the bytes of answers.
    pub http_ns: AtomicU64,
}

impl Floor {
    /// Answers 204 to everything, and counts.
    pub fn start() -> Result<Floor, String> {
        Floor::serve(None)
    }

    /// Answers this body to everything, and counts nothing: reading a clock twice a request would be dearer than the answer.
    pub fn canned(body: Vec<u8>) -> Result<Floor, String> {
        Floor::serve(Some(body))
    }

    fn serve(body: Option<Vec<u8>>) -> Result<Floor, String> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = Listeners::bind(any, 1).map_err(|e| e.to_string())?;
        let address = listeners[0].local_addr().ok_or("no address")?;
        let handle = Handle::new().map_err(|e| e.to_string())?;
        let (stop, counts) = (handle.clone(), Arc::new(Counts::default()));
        let ready = Arc::new(AtomicBool::new(false));
        let (began, shared) = (Arc::clone(&ready), Arc::clone(&counts));
        let serve = move || {
            // Where there is no core 0 for us, it runs on another.
            let _ = door_transport::cores::pin(0);
            began.store(true, Relaxed);
            let app = Same { limits: Limits::default(), body, counts: shared };
            let service = FloorService { room: Room::default(), app };
            if let Err(error) = door_transport::run(listeners, &Options::default(), service, &stop)
            {
                eprintln!("floor: {error}");
            }
        };
        let thread = std::thread::Builder::new().name(THREAD.into()).spawn(serve);
        let thread = thread.map_err(|e| e.to_string())?;
        while !ready.load(Relaxed) {
            std::thread::yield_now();
        }
        Ok(Floor { address, counts, handle, thread: Some(thread) })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct FloorService {
    room: Room,
    app: Same,
}

struct Same {
    limits: Limits,
    /// Without one, 204.
    body: Option<Vec<u8>>,
    counts: Arc<Counts>,
}

impl App for Same {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn request(&mut self, _: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        std::hint::black_box(request.body);
        match &self.body {
            Some(body) => reply.send(&Response::json(body)),
            None => {
                self.counts.requests.fetch_add(1, Relaxed);
                reply.send(&Response::empty(204))
            }
        }
    }

    fn refused(&mut self, _: Refusal) {}
}

impl Service for FloorService {
    type Conn = Session;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> Session {
        Session::default()
    }

    fn received(
        &mut self,
        id: ConnId,
        conn: &mut Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        if self.app.body.is_some() {
            return conn.received(id, input, out, &mut self.room, &mut self.app);
        }
        let started = Instant::now();
        let step = conn.received(id, input, out, &mut self.room, &mut self.app);
        self.app.counts.http_ns.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        step
    }

    fn closed(&mut self, _: ConnId, _: Session, _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, Session>) -> Turn {
        Turn::IDLE
    }
}
