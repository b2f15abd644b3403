//! A kernel that refuses io_uring, played by a seccomp filter on one thread.
#![allow(unsafe_code)] // reason: only libc can install a seccomp filter

use std::sync::Arc;
use std::thread;

use door_transport::{Backend, Handle, Options, RunError, TaskRun, Transport, choose, run};

use crate::support::Framed;

/// From now on this call of this thread fails with `errno`, as in a container.
fn refuse(call: libc::c_long, errno: i32) {
    let statement = |code: u32, k: u32, jt, jf| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let number = u32::try_from(call).unwrap();
    let refuse = libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
    let mut filter = [
        // The number of the system call is the first word of what the filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, refuse, 0, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program =
        libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers; it only forbids this thread to gain privileges.
    let first = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `program` points to a live filter of the stated length; the kernel copies it.
    let second =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!((first, second), (0, 0), "{}", std::io::Error::last_os_error());
}

fn with_refusal(call: libc::c_long, errno: i32, words: &'static str) {
    let check = move || {
        refuse(call, errno);
        let auto = Options { transport: Transport::Auto, ..Options::default() };
        let choice = choose(&auto).unwrap();
        assert_eq!(choice.backend, Backend::Epoll);
        let reason = choice.refused.unwrap().to_string();
        assert!(reason.contains(words), "{reason}");

        let handle = Handle::new().unwrap();
        handle.stop();
        run(Vec::new(), &auto, Framed(Arc::default()), &handle).unwrap();

        for cooperative in [TaskRun::Defer, TaskRun::Coop] {
            let named = Options { transport: Transport::IoUring, cooperative, ..auto.clone() };
            let refusal = choose(&named).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
            let result = run(Vec::new(), &named, Framed(Arc::default()), &handle);
            assert!(matches!(result, Err(RunError::Refused(_))));
        }
    };
    thread::spawn(check).join().unwrap();
}

#[test]
fn auto_falls_back_with_a_reason_and_io_uring_by_name_fails() {
    with_refusal(libc::SYS_io_uring_setup, libc::EPERM, "seccomp");
    with_refusal(libc::SYS_io_uring_setup, libc::ENOSYS, "no io_uring");
    with_refusal(libc::SYS_io_uring_setup, libc::EINVAL, "too old");
    // Memory that lasts for the ring, and not for its buffers.
    with_refusal(libc::SYS_io_uring_register, libc::ENOMEM, "receive_buffers");
}

#[test]
fn epoll_by_name_asks_nobody() {
    let options = Options { transport: Transport::Epoll, ..Options::default() };
    let choice = choose(&options).unwrap();
    assert!(choice.backend == Backend::Epoll && choice.refused.is_none());
    assert_eq!(choice.backend.to_string(), "epoll");
}
