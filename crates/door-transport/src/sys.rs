//! The kernel calls that std has no function for, each behind a safe signature.
#![allow(unsafe_code)] // reason: socket options, accept4, epoll, eventfd and affinity exist only in libc

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_void, socklen_t};

use crate::service::Peer;

const BACKLOG: c_int = 4096;

#[expect(clippy::cast_possible_truncation, reason = "the families are small constants")]
const FAMILIES: (libc::sa_family_t, libc::sa_family_t) =
    (libc::AF_INET as libc::sa_family_t, libc::AF_INET6 as libc::sa_family_t);

/// The result of a call that gives -1 and errno on failure.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn size_of_c<T>() -> socklen_t {
    socklen_t::try_from(mem::size_of::<T>()).unwrap_or(0)
}

/// Owns a descriptor that a kernel call just gave.
fn own(fd: c_int) -> OwnedFd {
    // SAFETY: every caller passes the fresh, checked result of a call that opens a descriptor, so it
    // is valid and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A counter that can be waited for. Blocking: its one reader reads only when it is readable.
pub(crate) fn event() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }).map(own)
}

/// Receives what is there into `buffer`; 0 at the end of the stream.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, which outlives the call.
    check_size(unsafe {
        libc::recv(
            fd.as_raw_fd(),
            buffer.as_mut_ptr().cast::<c_void>(),
            buffer.len(),
            libc::MSG_DONTWAIT,
        )
    })
}

/// Sends as much of `bytes` as fits now, never raising SIGPIPE.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`, which outlives the call.
    check_size(unsafe {
        libc::send(
            fd.as_raw_fd(),
            bytes.as_ptr().cast::<c_void>(),
            bytes.len(),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    })
}

/// Tells the peer that nothing more will be sent.
pub(crate) fn finish_sending(fd: BorrowedFd<'_>) {
    // SAFETY: no pointers. An error means that the connection is gone already.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) };
}

/// Ends both directions, which also ends every operation in flight on the socket.
pub(crate) fn sever(fd: BorrowedFd<'_>) {
    // SAFETY: no pointers. An error means that the connection is gone already.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) };
}

fn set_option<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is a live T and its size is passed; the kernel only reads it.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast::<c_void>(),
            size_of_c::<T>(),
        )
    })
    .map(drop)
}

/// Makes the coming close throw unsent bytes away (a reset) instead of keeping them in the kernel.
pub(crate) fn abort_on_close(fd: BorrowedFd<'_>) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // Best effort: a Unix socket has no such option and keeps nothing.
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}

/// Makes calls on `fd` return instead of wait.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Makes calls on `fd` wait, as `io_uring` wants them.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
        .map(drop)
}

/// A listening TCP socket. TCP_NODELAY is set here because accepted sockets inherit it.
pub(crate) fn listen_tcp(address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })
        .map(own)?;
    let (on, borrowed) = (1 as c_int, std::os::fd::AsFd::as_fd(&fd));
    set_option(borrowed, libc::SOL_SOCKET, libc::SO_REUSEADDR, &on)?;
    if shared {
        set_option(borrowed, libc::SOL_SOCKET, libc::SO_REUSEPORT, &on)?;
    }
    set_option(borrowed, libc::IPPROTO_TCP, libc::TCP_NODELAY, &on)?;
    let (storage, length) = to_storage(address);
    // SAFETY: `storage` is a live sockaddr of `length` valid bytes; the kernel only reads it.
    check(unsafe {
        libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&storage).cast::<libc::sockaddr>(), length)
    })?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}

/// Begins to connect to `address`. The socket does not wait; it becomes writable when the attempt is over.
pub(crate) fn connect_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, kind, 0) }).map(own)?;
    let on = 1 as c_int;
    set_option(std::os::fd::AsFd::as_fd(&fd), libc::IPPROTO_TCP, libc::TCP_NODELAY, &on)?;
    let (storage, length) = to_storage(address);
    // SAFETY: `storage` is a live sockaddr of `length` valid bytes; the kernel only reads it.
    let result = check(unsafe {
        libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&storage).cast::<libc::sockaddr>(), length)
    });
    match result {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(fd),
    }
}

/// How an attempt to connect ended, and with whom.
pub(crate) fn connect_result(fd: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut errno: c_int = 0;
    let mut length = size_of_c::<c_int>();
    // SAFETY: the kernel writes at most `length` bytes to `errno`, which is a c_int; both live through the call.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut errno).cast::<c_void>(),
            &raw mut length,
        )
    })?;
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let peer = peer_of(fd)?;
    // Without a listener, a port of this machine can be given to the very socket that asks for it: TCP then connects
    // the socket to itself.
    if local_of(fd)? == peer {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    Ok(peer)
}

fn to_storage(address: SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    // SAFETY: all zeroes is a valid sockaddr_storage: integers and byte arrays only.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let target = std::ptr::from_mut(&mut storage);
    match address {
        SocketAddr::V4(v4) => {
            let value = libc::sockaddr_in {
                sin_family: FAMILIES.0,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is at least as large and as aligned as sockaddr_in.
            unsafe { target.cast::<libc::sockaddr_in>().write(value) };
            (storage, size_of_c::<libc::sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            let value = libc::sockaddr_in6 {
                sin6_family: FAMILIES.1,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: sockaddr_storage is at least as large and as aligned as sockaddr_in6.
            unsafe { target.cast::<libc::sockaddr_in6>().write(value) };
            (storage, size_of_c::<libc::sockaddr_in6>())
        }
    }
}

fn to_peer(storage: &libc::sockaddr_storage) -> Peer {
    let source = std::ptr::from_ref(storage);
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in.
            let v4 = unsafe { source.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Peer::Tcp(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6.
            let v6 = unsafe { source.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            let address = SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
            Peer::Tcp(SocketAddr::V6(address))
        }
        _ => Peer::Local,
    }
}

/// Accepts one waiting connection.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Peer)> {
    // SAFETY: all zeroes is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut length = size_of_c::<libc::sockaddr_storage>();
    // SAFETY: the kernel writes at most `length` bytes to `storage` and the size to `length`; both
    // live through the call.
    let fd = check(unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::from_mut(&mut storage).cast::<libc::sockaddr>(),
            &raw mut length,
            libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
        )
    })
    .map(own)?;
    Ok((fd, to_peer(&storage)))
}

/// Who is at the other end of `fd`.
pub(crate) fn peer_of(fd: BorrowedFd<'_>) -> io::Result<Peer> {
    address_of(fd, libc::getpeername)
}

/// The address `fd` is bound to.
pub(crate) fn local_of(fd: BorrowedFd<'_>) -> io::Result<Peer> {
    address_of(fd, libc::getsockname)
}

type AddressCall = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int;

fn address_of(fd: BorrowedFd<'_>, call: AddressCall) -> io::Result<Peer> {
    // SAFETY: all zeroes is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut length = size_of_c::<libc::sockaddr_storage>();
    // SAFETY: `call` is getpeername or getsockname: it writes at most `length` bytes to `storage`
    // and the size to `length`; both live through the call.
    check(unsafe {
        call(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut storage).cast::<libc::sockaddr>(),
            &raw mut length,
        )
    })?;
    Ok(to_peer(&storage))
}

/// Owns the descriptor that a completed io_uring accept gave.
pub(crate) fn own_accepted(fd: RawFd) -> OwnedFd {
    own(fd)
}

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// One thing that epoll reported.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) broken: bool,
}

/// A level-triggered epoll set.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    pub(crate) fn new(events_max: usize) -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(own)?;
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events_max] })
    }

    fn control(
        &self,
        operation: c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let read = if interest.read { libc::EPOLLIN.cast_unsigned() } else { 0 };
        let write = if interest.write { libc::EPOLLOUT.cast_unsigned() } else { 0 };
        let mut event = libc::epoll_event { events: read | write, u64: token };
        // SAFETY: `event` is a live epoll_event; the kernel only reads it.
        check(unsafe {
            libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event)
        })
        .map(drop)
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64, what: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, what)
    }

    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, token: u64, what: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, what)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::default());
    }

    /// Waits for events, at most `timeout_ms` (-1 = without end). How many [`ready`](Self::ready)
    /// then gives; 0 when a signal came.
    pub(crate) fn wait(&mut self, timeout_ms: c_int) -> io::Result<usize> {
        let room = c_int::try_from(self.events.len()).unwrap_or(c_int::MAX);
        // SAFETY: the kernel writes at most `room` events to `events`, which has that many.
        let found = check(unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, timeout_ms)
        });
        match found {
            Ok(count) => Ok(usize::try_from(count).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        let flags = event.events;
        let has = |bits: c_int| flags & bits.cast_unsigned() != 0;
        Ready {
            token: event.u64,
            read: has(libc::EPOLLIN),
            write: has(libc::EPOLLOUT),
            broken: has(libc::EPOLLERR | libc::EPOLLHUP),
        }
    }
}

/// The cores this thread may run on, ascending.
pub(crate) fn affinity() -> io::Result<Vec<usize>> {
    // SAFETY: all zeroes is a valid, empty cpu_set_t.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most the given size to `set`.
    check(unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) })?;
    let cores = 0..libc::CPU_SETSIZE.cast_unsigned() as usize;
    // SAFETY: `core` is below CPU_SETSIZE, so the bit lies within the set.
    Ok(cores.filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect())
}

/// Lets this thread run on `cores` only.
pub(crate) fn set_affinity(cores: &[usize]) -> io::Result<()> {
    // SAFETY: all zeroes is a valid, empty cpu_set_t.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &core in cores {
        if core >= libc::CPU_SETSIZE.cast_unsigned() as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: `core` is below CPU_SETSIZE, so the bit lies within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: the kernel reads the given size of `set`.
    check(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) }).map(drop)
}

/// Raises the process's soft limit of open descriptors to its hard limit, and returns it. Every connection is a
/// descriptor, and the usual soft limit of 1,024 is there for programs that use `select`.
///
/// # Errors
/// The kernel refuses.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = descriptor_limits()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads one rlimit from `limit`, which is one.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

/// Returns the process's soft limit of open descriptors.
///
/// # Errors
/// The kernel refuses.
pub fn descriptor_limit() -> io::Result<u64> {
    Ok(descriptor_limits()?.rlim_cur)
}

fn descriptor_limits() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit into `limit`, which is one.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}

/// Lets the allocator give memory that is free back to the system. Takes some milliseconds where there is much.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer; it locks what it looks at.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_descriptor_limit_is_raised_to_the_hard_one() {
        let raised = raise_descriptor_limit().unwrap();
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        assert_eq!(soft, raised);
    }

    #[test]
    fn addresses_survive_the_kernel_form() {
        for text in ["127.0.0.1:80", "[::1]:65535", "[fe80::1%3]:7"] {
            let address: SocketAddr = text.parse().unwrap();
            let (storage, _) = to_storage(address);
            assert_eq!(to_peer(&storage), Peer::Tcp(address));
        }
    }

    #[test]
    fn accepted_sockets_send_at_once_and_know_both_ends() {
        let listener = listen_tcp("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let Peer::Tcp(address) = local_of(listener.as_fd()).unwrap() else { panic!("not TCP") };
        let client = std::net::TcpStream::connect(address).unwrap();
        let (fd, peer) = accept(listener.as_fd()).unwrap();
        assert_eq!(peer, Peer::Tcp(client.local_addr().unwrap()));
        assert_eq!(peer_of(fd.as_fd()).unwrap(), peer);
        assert!(std::net::TcpStream::from(fd).nodelay().unwrap());
    }

    #[test]
    fn a_broken_pipe_is_an_error_not_a_signal() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(theirs);
        let error = send(ours.as_fd(), b"x").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
        sever(ours.as_fd());
        finish_sending(ours.as_fd());
        abort_on_close(ours.as_fd());
        set_nonblocking(ours.as_fd()).unwrap();
        assert_eq!(receive(ours.as_fd(), &mut [0; 4]).unwrap(), 0);
    }
}
