//! The TLS of one connection: records in, plain bytes out, and back.
//!
//! It uses the interface of `rustls` that owns no buffers of records: ciphertext is decrypted in the connection's
//! own `incoming` buffer, and what the service wrote is encrypted from `Output::pending` straight into
//! `Output::flying`. Records that TLS itself wants sent (handshake, alerts, key updates, tickets) gather in
//! `outgoing` and go first, so records leave in the order in which they were encrypted.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error};

use crate::buffer::{Buffer, Output, Pool};
use crate::counters::HandshakeFailure;
use crate::service::Peer;
use crate::tls::{ClientTls, Secured, ServerTls};

/// The longest unfinished message of a handshake. A chain of certificates is the largest one.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;
/// What is kept of a first message that is not whole without one of the places for handshakes. Those of today have up to 2 kB.
const EARLY_BYTES_MAX: usize = 4 * 1024;
/// Bytes in front of a message of the handshake.
const MESSAGE_HEAD: usize = 4;
/// What a record adds to its content at most, and what a record holds at most.
const RECORD_OVERHEAD: usize = 64;
const RECORD_BYTES: usize = 16 * 1024;
/// The first byte of every record of a handshake, and of every record of any kind.
const HANDSHAKE_RECORD: u8 = 22;
const ANY_RECORD: std::ops::RangeInclusive<u8> = 20..=23;

/// Which end of the handshake we are.
enum Role {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// What both roles can do.
trait Side {
    type Data;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;

    fn common(&self) -> &CommonState;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// What came out of the peer's records.
pub(crate) enum Event<'a> {
    /// The handshake is over. Comes once, before any bytes.
    Established(Secured<'a>),
    /// Bytes of the peer's, decrypted and authentic.
    Bytes(&'a [u8]),
}

/// The TLS of one connection.
pub(crate) struct Session {
    role: Role,
    records: Records,
    /// Who is at the other end, and where it came in: for the service, once the handshake is over.
    pub(crate) peer: Peer,
    pub(crate) door: usize,
    /// On the list of handshakes that have something to do.
    pub(crate) queued: bool,
    /// It has, or had, one of the places for handshakes.
    pub(crate) placed: bool,
    /// Why the handshake failed, if that is known better than by how the connection ended.
    pub(crate) failure: Option<HandshakeFailure>,
    /// What was wrong with what the peer said, in words.
    pub(crate) fault: Option<Box<str>>,
    /// The part of the memory of its buffers that the totals count.
    pub(crate) memory_counted: usize,
    first_byte: Option<u8>,
    /// What the peer sent was read at least once.
    was_read: bool,
}

/// The buffers of records, and how far the stream has come.
#[derive(Default)]
struct Records {
    incoming: Buffer,
    outgoing: Buffer,
    established: bool,
    peer_closed: bool,
    /// We sent the last record that we will: `close_notify` or a fatal alert.
    finished: bool,
}

impl Session {
    pub(crate) fn server(tls: &ServerTls, peer: Peer, door: usize) -> Result<Self, Error> {
        let role = Role::Server(UnbufferedServerConnection::new(tls.config())?);
        Ok(Self::new(role, peer, door))
    }

    /// A session that begins to speak with its first [`read`](Self::read), of nothing.
    pub(crate) fn client(tls: &ClientTls, peer: Peer, door: usize) -> Result<Self, Error> {
        let (config, name) = tls.config();
        let role = Role::Client(UnbufferedClientConnection::new(config, name)?);
        Ok(Self::new(role, peer, door))
    }

    fn new(role: Role, peer: Peer, door: usize) -> Self {
        Self {
            role,
            records: Records::default(),
            peer,
            door,
            queued: false,
            placed: false,
            failure: None,
            fault: None,
            memory_counted: 0,
            first_byte: None,
            was_read: false,
        }
    }

    pub(crate) fn is_established(&self) -> bool {
        self.records.established
    }

    /// The peer said that it sends nothing more.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.records.peer_closed
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.records.outgoing.is_empty()
    }

    pub(crate) fn memory(&self) -> usize {
        self.records.incoming.memory() + self.records.outgoing.memory()
    }

    /// Keeps what the peer sent.
    pub(crate) fn append(&mut self, chunk: &[u8], pool: &mut Pool) {
        self.first_byte = self.first_byte.or(chunk.first().copied());
        pool.equip(&mut self.records.incoming);
        self.records.incoming.append(chunk);
    }

    /// Whether the peer began a handshake, and we have said nothing yet.
    pub(crate) fn is_unanswered(&self) -> bool {
        !self.was_read && self.first_byte == Some(HANDSHAKE_RECORD)
    }

    /// Whether the handshake can be worked on: the client's first message is whole, or too long, or none.
    pub(crate) fn has_begun(&self) -> bool {
        let bytes = self.records.incoming.as_slice();
        self.placed || bytes.len() > EARLY_BYTES_MAX || is_whole_hello(bytes)
    }

    /// More waits than a message of a handshake may have. What came behind the end of the handshake may be as much.
    pub(crate) fn is_over_full(&self) -> bool {
        self.records.incoming.len() > HANDSHAKE_BYTES_MAX
    }

    /// Hands everything that is in the records of the peer to `sink`.
    pub(crate) fn read(&mut self, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.was_read = true;
        let records = &mut self.records;
        let result = match &mut self.role {
            Role::Server(side) => records.read(side, sink),
            Role::Client(side) => records.read(side, sink),
        };
        let Err(error) = result else { return Ok(()) };
        match &mut self.role {
            Role::Server(side) => records.take_alert(side),
            Role::Client(side) => records.take_alert(side),
        }
        if !records.established {
            let failure = *self.failure.get_or_insert(reason(&error, self.first_byte));
            if failure != HandshakeFailure::PlainBytes {
                self.fault.get_or_insert_with(|| error.to_string().into());
            }
        }
        Err(error)
    }

    /// Encrypts what waits into `output.flying`, unless a send is unfinished. `last`: nothing is to follow it.
    pub(crate) fn seal(&mut self, output: &mut Output, pool: &mut Pool, last: bool) {
        if !output.flying.is_empty() {
            return;
        }
        let records = &mut self.records;
        if !records.outgoing.is_empty() {
            std::mem::swap(&mut records.outgoing, &mut output.flying);
        }
        if records.established && !records.finished && (last || !output.pending.is_empty()) {
            pool.equip(&mut output.flying);
            let bytes = output.pending.as_slice();
            let sealed = match &mut self.role {
                Role::Server(side) => records.seal(side, bytes, &mut output.flying, last),
                Role::Client(side) => records.seal(side, bytes, &mut output.flying, last),
            };
            // What could not be encrypted is not sent: the peer sees a stream without its end.
            records.finished = last || !sealed;
            if output.flying.is_empty() {
                pool.recycle(&mut output.flying);
            }
        }
        pool.recycle(&mut output.pending);
    }

    /// Gives memory that holds nothing back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for buffer in [&mut self.records.incoming, &mut self.records.outgoing] {
            if buffer.is_empty() {
                pool.recycle(buffer);
            }
        }
    }
}

impl Records {
    fn read<S: Side>(
        &mut self,
        side: &mut S,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Error> {
        loop {
            let UnbufferedStatus { mut discard, state } =
                side.process(self.incoming.as_mut_slice());
            let mut blocked = false;
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.incoming.consume(discard);
                    return Err(error);
                }
            };
            // Bytes that came together with the end of the handshake wait until the service was told of that.
            let mut first = Vec::new();
            match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        if self.established {
                            sink(Event::Bytes(record.payload));
                        } else {
                            first.extend_from_slice(record.payload);
                        }
                    }
                }
                ConnectionState::EncodeTlsData(data) => encode(data, &mut self.outgoing),
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                _ => blocked = true,
            }
            self.incoming.consume(discard);
            if !self.established && !side.common().is_handshaking() {
                self.established = true;
                let common = side.common();
                sink(Event::Established(Secured {
                    alpn: common.alpn_protocol(),
                    certificates: common.peer_certificates().unwrap_or_default(),
                }));
            }
            if !first.is_empty() {
                sink(Event::Bytes(&first));
            }
            if blocked {
                return Ok(());
            }
        }
    }

    /// After an error: what the peer is told of it. Nothing follows: the alert is the last thing that is queued, and
    /// whoever asked for more would have the same bytes fail again.
    fn take_alert<S: Side>(&mut self, side: &mut S) {
        self.finished = true;
        loop {
            let UnbufferedStatus { discard, state } = side.process(self.incoming.as_mut_slice());
            match state {
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    let before = self.outgoing.len();
                    encode(data, &mut self.outgoing);
                    if is_alert(&self.outgoing.as_slice()[before..]) {
                        return;
                    }
                }
                _ => return,
            }
            self.incoming.consume(discard);
        }
    }

    /// Appends `bytes` to `target` as records, and the end of the stream if this is the `last` of it; false when the
    /// stream can carry nothing more.
    fn seal<S: Side>(
        &mut self,
        side: &mut S,
        bytes: &[u8],
        target: &mut Buffer,
        last: bool,
    ) -> bool {
        loop {
            let UnbufferedStatus { discard, state } = side.process(self.incoming.as_mut_slice());
            let done = match state {
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    Some(write(traffic, bytes, target, last))
                }
                Ok(ConnectionState::EncodeTlsData(data)) => {
                    encode(data, target);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    None
                }
                // All that came was read before, so this is a stream that failed or ended.
                _ => Some(false),
            };
            self.incoming.consume(discard);
            if let Some(done) = done {
                return done;
            }
        }
    }
}

fn write<D>(
    mut traffic: WriteTraffic<'_, D>,
    bytes: &[u8],
    target: &mut Buffer,
    last: bool,
) -> bool {
    let guess = bytes.len() + (bytes.len() / RECORD_BYTES + 1) * RECORD_OVERHEAD;
    let written = append(target, guess, |room| traffic.encrypt(bytes, room));
    if !written || !last {
        return written;
    }
    append(target, RECORD_OVERHEAD, |room| traffic.queue_close_notify(room))
}

/// Appends what `fill` writes, in as much room as it asks for.
fn append(
    target: &mut Buffer,
    guess: usize,
    mut fill: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> bool {
    let mut room = guess;
    loop {
        match fill(target.reserve(room)) {
            Ok(count) => {
                target.commit(count);
                return true;
            }
            Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(_) => return false,
        }
    }
}

/// Appends a record of TLS itself.
fn encode<D>(mut data: EncodeTlsData<'_, D>, target: &mut Buffer) {
    let mut room = 1024;
    loop {
        match data.encode(target.reserve(room)) {
            Ok(count) => return target.commit(count),
            Err(EncodeError::InsufficientSize(size)) if size.required_size > room => {
                room = size.required_size;
            }
            Err(_) => return,
        }
    }
}

/// Whether a record of ours is an alert: by its type, or by the length of an encrypted one.
fn is_alert(record: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const ENCRYPTED: u8 = 23;
    const ENCRYPTED_ALERT_BYTES: usize = 5 + 2 + 1 + 16;
    match record.first() {
        Some(&ALERT) => true,
        Some(&ENCRYPTED) => record.len() == ENCRYPTED_ALERT_BYTES,
        _ => false,
    }
}

/// Why a handshake failed, for the counters.
fn reason(error: &Error, first_byte: Option<u8>) -> HandshakeFailure {
    match error {
        _ if first_byte.is_some_and(|byte| !ANY_RECORD.contains(&byte)) => {
            HandshakeFailure::PlainBytes
        }
        Error::InvalidCertificate(_) | Error::NoCertificatesPresented => {
            HandshakeFailure::Certificate
        }
        _ => HandshakeFailure::Refused,
    }
}

/// Whether bytes hold the first message of a client to its end, which may span records; true also where they are no such message, or
/// no records, so that somebody looks at them.
fn is_whole_hello(bytes: &[u8]) -> bool {
    let (mut rest, mut have, mut head) = (bytes, 0, [0; MESSAGE_HEAD]);
    while let [kind, _, _, high, low, behind @ ..] = rest {
        let size = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != HANDSHAKE_RECORD || size == 0 {
            return true;
        }
        let Some((body, next)) = behind.split_at_checked(size) else { return false };
        let missing = head.iter_mut().skip(have);
        missing.zip(body).for_each(|(at, byte)| *at = *byte);
        (rest, have) = (next, have + size);
        let [_, a, b, c] = head;
        let need = MESSAGE_HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
        if have >= MESSAGE_HEAD && have >= need {
            return true;
        }
    }
    rest.first().is_some_and(|kind| *kind != HANDSHAKE_RECORD)
}

/// Whether bytes begin as a TLS client's do: the head of a record with a ClientHello in it.
pub(crate) fn is_client_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [HANDSHAKE_RECORD, 3, 0..=4, _, _, 1, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_message_is_whole_at_its_last_byte_however_many_records_it_has() {
        let message: Vec<u8> = [1, 0, 0, 40].into_iter().chain(0..40).collect();
        for pieces in [44, 20, 7, 3, 1] {
            let record = |piece: &[u8]| {
                let size = u8::try_from(piece.len()).unwrap();
                [&[HANDSHAKE_RECORD, 3, 1, 0, size], piece].concat()
            };
            let bytes: Vec<u8> = message.chunks(pieces).flat_map(record).collect();
            for cut in 0..bytes.len() {
                assert!(!is_whole_hello(&bytes[..cut]), "{pieces}: {cut}");
            }
            assert!(is_whole_hello(&bytes), "{pieces}");
        }
        for other in [&b"GET / HTTP/1.1"[..], &[21, 3, 3, 0, 2, 1, 0], &[22, 3, 1, 0, 0]] {
            assert!(is_whole_hello(other), "{other:?}");
        }
        assert!(!is_whole_hello(&[]) && !is_whole_hello(&[22, 3, 1]));
    }
}
