//! The floor: a server that reads the same frames and writes answers of the same size, and decides nothing.
//!
//! It speaks just enough of the batch protocol for the load tool: every ask is answered `paced`, every book is
//! full. What a node costs beyond this is the cost of deciding.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use door_transport::tls::ServerTls;
use door_transport::{
    CloseReason, ConnId, Handle, Listener, Listeners, Options, Out, Outbox, Peer, Service, Step,
    Turn,
};
use wire::{Message, Split, Verdict, books, decided, frame, totals, welcome};

/// Budgets it claims to have.
pub const BUDGETS: u64 = 1_000;
const FRAME_BYTES_MAX: u32 = 65_536;

/// A bare server on its own thread, pinned to core 0 where there is one.
pub struct Bare {
    pub address: SocketAddr,
    handle: Handle,
    thread: std::thread::JoinHandle<()>,
}

impl Bare {
    /// Starts one on a free port, with TLS below it where it is given.
    pub fn start(options: Options, tls: Option<&ServerTls>) -> Result<Bare, String> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = Listeners::bind(any, 1).map_err(|e| e.to_string())?;
        let with_tls = |one: Listener| match tls {
            Some(tls) => one.with_tls(tls.clone()),
            None => one,
        };
        let listeners: Vec<Listener> = listeners.into_iter().map(with_tls).collect();
        let address = listeners[0].local_addr().ok_or("no address")?;
        let handle = Handle::new().map_err(|e| e.to_string())?;
        let stop = handle.clone();
        let ready = Arc::new(AtomicBool::new(false));
        let began = Arc::clone(&ready);
        let thread = std::thread::spawn(move || {
            let _ = door_transport::cores::pin(0);
            began.store(true, Ordering::Release);
            let service = Echo { decisions: 0 };
            if let Err(error) = door_transport::run(listeners, &options, service, &handle) {
                eprintln!("bare server: {error}");
            }
        });
        while !ready.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        Ok(Bare { address, handle: stop, thread })
    }

    /// Ends it.
    pub fn stop(self) {
        self.handle.stop();
        let _ = self.thread.join();
    }
}

struct Echo {
    decisions: u64,
}

impl Echo {
    fn answer(
        &mut self,
        bytes: &[u8],
        out: &mut Out<'_>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        match Message::decode(bytes)? {
            Message::Decide(batch) => {
                let count = batch.asks().len();
                self.decisions += count as u64;
                let buf = out.reserve(decided::encoded_len(count));
                let block = decided::Block::new(batch.frame(), 1);
                let (answers, encoder) = decided::encode(buf, &block)?.answers_mut(count)?;
                answers.fill(decided::Answer::new([0; 32], Verdict::Paced));
                let len = encoder.finish();
                out.commit(len);
            }
            Message::Hello(_) => {
                let block =
                    welcome::Block::new(1, 1, 1, 1024, 0, FRAME_BYTES_MAX, 2_000, 3_600_000, 1);
                let buf = out.reserve(welcome::encoded_len());
                let len = welcome::encode(buf, &block)?.finish();
                out.commit(len);
            }
            Message::BooksRequest(request) => write_books(&request, out)?,
            Message::TotalsRequest(request) => self.write_totals(request.frame(), out)?,
            _ => {}
        }
        Ok(())
    }

    fn write_totals(&self, frame: u64, out: &mut Out<'_>) -> Result<(), wire::EncodeError> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let cpu_ns = text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let block = totals::Block::new(frame, 1, cpu_ns, self.decisions, 0, 0, 0);
        let verdicts = [totals::Item::new(self.decisions, Verdict::Paced)];
        let buf = out.reserve(totals::encoded_len(verdicts.len()));
        let len = totals::encode(buf, &block)?.verdicts(&verdicts)?.finish();
        out.commit(len);
        Ok(())
    }
}

fn write_books(
    request: &wire::BooksRequest<'_>,
    out: &mut Out<'_>,
) -> Result<(), wire::EncodeError> {
    let from = request.from_budget_id().max(1);
    let to = BUDGETS.min(from + u64::from(request.max()).saturating_sub(1));
    let line = |id| books::Budget::new(id, 1 << 50, 1 << 50, 0, 0, 0, 0, 0, *b"USD\0");
    let lines: Vec<books::Budget> = (from..=to).map(line).collect();
    let block = books::Block::new(request.frame(), 1, u8::from(to < BUDGETS));
    let buf = out.reserve(books::encoded_len(lines.len()));
    let len = books::encode(buf, &block)?.budgets(&lines)?.finish();
    out.commit(len);
    Ok(())
}

impl Service for Echo {
    type Conn = ();

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) {}

    fn received(&mut self, _: ConnId, _: &mut (), input: &[u8], out: &mut Out<'_>) -> Step {
        let mut consumed = 0;
        loop {
            match frame::split(&input[consumed..], FRAME_BYTES_MAX) {
                Ok(Split::Frame(bytes)) => {
                    consumed += bytes.len();
                    if self.answer(bytes, out).is_err() {
                        return Step::Close { consumed, after_output: false };
                    }
                }
                Ok(Split::Incomplete { need }) => return Step::Read { consumed, need },
                Err(_) => return Step::Close { consumed, after_output: false },
            }
        }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, ()>) -> Turn {
        Turn::IDLE
    }
}
