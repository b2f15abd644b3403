//! The bytes of a connection: plain, or over TLS with the feature `tls`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::options::Options;

/// A socket that one thread reads while others write.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: TcpStream,
    #[cfg(feature = "tls")]
    tls: Option<tls::Tls>,
}

impl Transport {
    /// A transport over a connected socket. With TLS the handshake comes with the first bytes.
    pub(crate) fn new(
        stream: TcpStream,
        address: &str,
        options: &Options,
    ) -> std::io::Result<Transport> {
        #[cfg(feature = "tls")]
        {
            let tls =
                options.tls.as_ref().map(|config| tls::Tls::new(config, address)).transpose()?;
            Ok(Transport { stream, tls })
        }
        #[cfg(not(feature = "tls"))]
        {
            let _ = (address, options);
            Ok(Transport { stream })
        }
    }

    /// The socket, for its options.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads once; 0 bytes at the end.
    pub(crate) fn read(&self, bytes: &mut [u8]) -> std::io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.read(&self.stream, bytes);
        }
        (&self.stream).read(bytes)
    }

    /// Writes all bytes. One thread at a time.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.write_all(&self.stream, bytes);
        }
        (&self.stream).write_all(bytes)
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::io::{Error, ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection};

    /// What is read from the socket at once, in bytes: a record of TLS.
    const READ_LEN: usize = 17 << 10;

    /// A session. Its lock is never held while somebody waits for bytes.
    #[derive(Debug)]
    pub(super) struct Tls {
        session: Mutex<ClientConnection>,
        /// Of the one thread that reads.
        received: Mutex<Received>,
    }

    #[derive(Debug)]
    struct Received {
        from_socket: Vec<u8>,
        /// Decrypted, from `given` on not yet given to the reader.
        plain: Vec<u8>,
        given: usize,
    }

    impl Tls {
        pub(super) fn new(config: &Arc<ClientConfig>, address: &str) -> Result<Tls, Error> {
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
            let invalid = |error: String| Error::new(ErrorKind::InvalidInput, error);
            let name = ServerName::try_from(host).map_err(|error| invalid(error.to_string()))?;
            let session = ClientConnection::new(Arc::clone(config), name);
            let mut session = session.map_err(|error| invalid(error.to_string()))?;
            // What callers write at once is bounded by the frames in flight.
            session.set_buffer_limit(None);
            let received = Received { from_socket: vec![0; READ_LEN], plain: Vec::new(), given: 0 };
            Ok(Tls { session: Mutex::new(session), received: Mutex::new(received) })
        }

        fn lock(&self) -> MutexGuard<'_, ClientConnection> {
            self.session.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(super) fn write_all(&self, mut stream: &TcpStream, bytes: &[u8]) -> Result<(), Error> {
            let mut session = self.lock();
            session.writer().write_all(bytes)?;
            while session.wants_write() {
                session.write_tls(&mut stream)?;
            }
            Ok(())
        }

        pub(super) fn read(
            &self,
            mut stream: &TcpStream,
            bytes: &mut [u8],
        ) -> Result<usize, Error> {
            let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let left = received.plain.get(received.given..).unwrap_or(&[]);
                if !left.is_empty() {
                    let count = left.len().min(bytes.len());
                    bytes[..count].copy_from_slice(&left[..count]);
                    received.given += count;
                    return Ok(count);
                }
                let count = stream.read(&mut received.from_socket)?;
                if count == 0 {
                    return Ok(0);
                }
                self.decrypt(stream, &mut received, count)?;
            }
        }

        /// Decrypts what came from the socket. All of it is taken out of the session at once, which keeps but little.
        fn decrypt(
            &self,
            mut stream: &TcpStream,
            received: &mut Received,
            count: usize,
        ) -> Result<(), Error> {
            let Received { from_socket, plain, given } = received;
            plain.clear();
            *given = 0;
            let mut session = self.lock();
            let mut rest = from_socket.get(..count).unwrap_or(&[]);
            while !rest.is_empty() {
                session.read_tls(&mut rest)?;
                let processed = session.process_new_packets();
                let processed =
                    processed.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
                let begin = plain.len();
                plain.resize(begin + processed.plaintext_bytes_to_read(), 0);
                session.reader().read_exact(&mut plain[begin..])?;
            }
            while session.wants_write() {
                session.write_tls(&mut stream)?;
            }
            Ok(())
        }
    }
}
