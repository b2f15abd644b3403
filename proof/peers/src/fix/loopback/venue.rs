//! A venue that fills every order with one report, and no more FIX than that needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fix::{Framing, Index, Message, TimestampText, frame};

use super::client::unix_ms;
use crate::fix::messages::framed;

/// Name of the threads of its connections.
pub(super) const THREAD: &str = "fix-venue";

/// Listens until it is dropped; its connections have a thread each, on core 1.
pub(super) struct Venue {
    pub(super) address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Venue {
    pub(super) fn start() -> Result<Venue, String> {
        let failed = |e: std::io::Error| e.to_string();
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Relaxed) {
                    return;
                }
                let work = move || {
                    // Where there is no core 1 for us, it runs on another.
                    let _ = door_transport::cores::pin(1);
                    // The peer has gone; who trades with it finds out.
                    let _ = serve(stream);
                };
                // Without a thread the connection is closed, and who trades with it finds out.
                let _ = std::thread::Builder::new().name(THREAD.into()).spawn(work);
            }
        });
        Ok(Venue { address, over })
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        // So that it looks.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut index, mut input, mut room) = (Index::new(512), Vec::new(), vec![0; 1 << 16]);
    let (mut seq, mut clock, mut out) = (0, TimestampText::default(), Vec::new());
    loop {
        let len = stream.read(&mut room)?;
        if len == 0 {
            return Ok(());
        }
        input.extend_from_slice(&room[..len]);
        let mut used = 0;
        while let Framing::Whole(whole) = frame(&input[used..], 1 << 16) {
            used += whole.bytes().len();
            let Ok(message) = index.read(whole) else { continue };
            let time = String::from_utf8_lossy(clock.of_unix_ms(unix_ms())).into_owned();
            if let Some(answer) = answer(&message, seq + 1, &time) {
                seq += 1;
                out.extend(framed(&answer));
            }
        }
        input.drain(..used);
        stream.write_all(&out)?;
        out.clear();
    }
}

/// The body of what it says to a message.
fn answer(message: &Message<'_>, seq: u64, time: &str) -> Option<String> {
    let value = |tag| String::from_utf8_lossy(message.value(tag).unwrap_or_default()).into_owned();
    let header =
        |kind: char| format!("35={kind}|34={seq}|49={}|52={time}|56={}|", value(56), value(49));
    match message.msg_type() {
        b"A" => Some(format!("{}98=0|108={}|", header('A'), value(108))),
        b"1" => Some(format!("{}112={}|", header('0'), value(112))),
        b"D" => Some(format!(
            "{}37=EX-{seq}|11={}|17=E{seq}|150=F|39=2|1={}|55={}|54={}|38={q}|40=2|44={p}|32={q}|31={p}|151=0|14={q}|6={p}|60={time}|",
            header('8'),
            value(11),
            value(1),
            value(55),
            value(54),
            q = value(38),
            p = value(44),
        )),
        _ => None,
    }
}
