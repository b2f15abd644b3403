//! What TLS costs a door: the same server and the same frames over plain TCP and over TLS 1.3, in turns.
//!
//! The figure is the processor time of the server's thread per frame, as the kernel counts it: the client's part, which
//! encrypts as well, is not in it. Rounds are interleaved and ratios are taken within a round.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use door_transport::Options;
use door_transport::tls::{ClientCertificates, Identity, ServerOptions, ServerTls};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use wire::{DecideFlags, Message, decide, decided, totals, totals_request};

use crate::Size;
use crate::bare::Bare;

/// Asks of a frame.
const ASKS: usize = 10;

/// What is done over and over: its name, frames in flight (0: connections instead of frames).
const LOADS: [(&str, usize); 3] = [
    ("frame of 10 asks, 1 in flight", 1),
    ("frame of 10 asks, 32 in flight", 32),
    ("connection", 0),
];

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A bare server and how to reach it.
struct Side {
    server: Bare,
    tls: Option<Arc<ClientConfig>>,
}

/// Prints a table.
pub fn run(size: Size) {
    if let Err(error) = measure(size) {
        println!("NOT MEASURED: {error}");
    }
}

fn measure(size: Size) -> Result<(), String> {
    let (server, client) = certificates()?;
    let sides = [
        Side { server: Bare::start(Options::default(), None)?, tls: None },
        Side { server: Bare::start(Options::default(), Some(&server))?, tls: Some(client) },
    ];
    // The server's thread is on core 0.
    let _ = door_transport::cores::pin(1);
    println!("| server's processor time per | plain | TLS 1.3 | TLS adds | TLS / plain |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (name, depth) in LOADS {
        let mut samples = Vec::new();
        for round in 0..size.pick(15, 1) {
            let mut sample = [0.0; 2];
            // The order changes with each round.
            for at in [round % 2, 1 - round % 2] {
                sample[at] = sides[at].cpu_ns(depth, size).map_err(|error| error.to_string())?;
            }
            samples.push(sample);
        }
        let of = |figure: fn(&[f64; 2]) -> f64| quartiles(samples.iter().map(figure).collect());
        let [_, plain, _] = of(|sample| sample[0]);
        let [_, tls, _] = of(|sample| sample[1]);
        let [_, more, _] = of(|sample| sample[1] - sample[0]);
        let [low, ratio, high] = of(|sample| sample[1] / sample[0]);
        let us = |ns: f64| ns / 1e3;
        println!(
            "| {name} | {:.2} us | {:.2} us | {:.2} us | {ratio:.2} ({low:.2} to {high:.2}) |",
            us(plain),
            us(tls),
            us(more)
        );
    }
    sides.into_iter().for_each(|side| side.server.stop());
    Ok(())
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

/// A server's TLS, and what a client needs to trust it.
fn certificates() -> Result<(ServerTls, Arc<ClientConfig>), String> {
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = Identity { chain_pem: chain.as_bytes(), key_pem: key.as_bytes() };
    let options = ServerOptions { identity, clients: ClientCertificates::None, alpn: &[] };
    let server = ServerTls::new(&options).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let root = rustls::pki_types::CertificateDer::from_pem_slice(chain.as_bytes());
    roots.add(root.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
    // Each connection of the last load is a whole handshake.
    config.resumption = rustls::client::Resumption::disabled();
    Ok((server, Arc::new(config)))
}

impl Side {
    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        let socket = TcpStream::connect(self.server.address)?;
        socket.set_nodelay(true)?;
        let Some(config) = &self.tls else { return Ok(Box::new(socket)) };
        let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(config), name);
        let session = session.map_err(std::io::Error::other)?;
        Ok(Box::new(StreamOwned::new(session, socket)))
    }

    /// Processor time of the server per frame, or per connection, ns.
    fn cpu_ns(&self, depth: usize, size: Size) -> std::io::Result<f64> {
        let mut stream = self.connect()?;
        let before_ns = server_ns(&mut stream)?;
        let count = match size.pick(5_000_usize, 20).checked_div(depth) {
            None => {
                let count = size.pick(200, 2);
                for _ in 0..count {
                    exchange(&mut self.connect()?, 1)?;
                }
                count
            }
            Some(rounds) => {
                for _ in 0..rounds.max(1) {
                    exchange(&mut stream, depth)?;
                }
                rounds.max(1) * depth
            }
        };
        Ok((server_ns(&mut stream)? - before_ns) as f64 / count as f64)
    }
}

/// Sends `depth` frames in one write and takes their answers.
fn exchange(stream: &mut impl Stream, depth: usize) -> std::io::Result<()> {
    let asks: [decide::Ask; ASKS] =
        std::array::from_fn(|at| decide::Ask::new(at as u64, 1, 100, 7, [0; 4], 0, 0));
    let one = decide::encoded_len(ASKS);
    let mut frames = vec![0; one * depth];
    for frame in frames.chunks_mut(one) {
        let block = decide::Block::new(1, DecideFlags::default());
        let encoder = decide::encode(frame, &block).and_then(|encoder| encoder.asks(&asks));
        encoder.map_err(std::io::Error::other)?.finish();
    }
    stream.write_all(&frames)?;
    stream.flush()?;
    stream.read_exact(&mut vec![0; decided::encoded_len(ASKS) * depth])
}

/// Processor time that the server's thread has used, ns.
fn server_ns(stream: &mut impl Stream) -> std::io::Result<i64> {
    let mut frame = vec![0; totals_request::encoded_len()];
    let block = totals_request::Block::new(1);
    totals_request::encode(&mut frame, &block).map_err(std::io::Error::other)?.finish();
    stream.write_all(&frame)?;
    let mut answer = vec![0; totals::encoded_len(1)];
    stream.read_exact(&mut answer)?;
    match Message::decode(&answer) {
        Ok(Message::Totals(totals)) => Ok(totals.worker_cpu_ns() as i64),
        _ => Err(std::io::Error::other("no totals")),
    }
}
