//! `weir top` on a terminal that the test made: it is left as it was found, and its end is the end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Node, PATIENCE, Setup, line, text, wait_value, weir};

/// Leaves the other screen: the terminal shows what it showed before.
const RESTORED: &[u8] = b"\x1b[?1049l";

/// A terminal, and `weir top` on it.
struct Terminal {
    /// The end of whoever looks at it; closing it closes the terminal.
    near: Option<File>,
    /// The end of the program, to see in which mode it is.
    far: File,
    child: Child,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    fn open(node: &Node, columns: u16, rows: u16) -> Terminal {
        let near: OwnedFd =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let far = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
        tcsetwinsize(&far, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let end = || Stdio::from(far.try_clone().unwrap());
        let mut command = weir();
        command.args(["top", "--target", &node.admin.to_string()]).env("TERM", "xterm-256color");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Terminal { near: Some(near.into()), far, child }
    }

    /// Whether keys come one by one and are not shown.
    fn is_raw(&self) -> bool {
        !tcgetattr(&self.far).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Everything that is drawn from now on, as it comes; ends with the terminal.
    fn follow(&self) -> Receiver<Vec<u8>> {
        let mut near = self.near.as_ref().unwrap().try_clone().unwrap();
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = near.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        receive
    }

    fn wait_raw(&self) {
        wait_value("the terminal is raw", || self.is_raw().then_some(()));
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(std::process::Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        wait_value("weir top ends", || self.child.try_wait().unwrap()).code()
    }
}

fn node() -> Node {
    Setup::new(&line(1, "5", "")).start()
}

/// What was drawn until `expected` came.
fn until(drawn: &Receiver<Vec<u8>>, expected: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !all.windows(expected.len()).any(|window| window == expected) {
        let more = drawn.recv_timeout(PATIENCE);
        all.extend(more.unwrap_or_else(|_| {
            panic!("{} never came: {}", expected.escape_ascii(), all.escape_ascii())
        }));
    }
    all
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    let node = node();
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let mut terminal = Terminal::open(&node, 100, 30);
        let drawn = terminal.follow();
        until(&drawn, b"weir top");
        assert!(terminal.is_raw());
        terminal.signal(signal);
        assert_eq!(terminal.exit_code(), Some(0), "{signal}");
        until(&drawn, RESTORED);
        assert!(!terminal.is_raw(), "{signal}");
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let node = node();
    let mut terminal = Terminal::open(&node, 100, 30);
    terminal.wait_raw();
    terminal.near = None;
    assert_eq!(terminal.exit_code(), Some(0));
}

#[test]
fn a_signal_ends_it_on_a_terminal_that_takes_nothing() {
    let node = node();
    // Nobody reads what is drawn: a screen of this size fills all buffers, and drawing does not come back.
    let mut terminal = Terminal::open(&node, 1_000, 400);
    terminal.wait_raw();
    terminal.signal("TERM");
    assert_eq!(terminal.exit_code(), Some(0));
    assert!(!terminal.is_raw());
}

#[test]
fn the_smallest_terminal_can_be_quit() {
    let node = node();
    for (columns, rows) in [(1, 1), (1, 50), (300, 1)] {
        let mut terminal = Terminal::open(&node, columns, rows);
        let drawn = terminal.follow();
        terminal.wait_raw();
        terminal.near.as_mut().unwrap().write_all(b"q").unwrap();
        assert_eq!(terminal.exit_code(), Some(0), "{columns}x{rows}");
        until(&drawn, RESTORED);
    }
}

#[test]
fn a_node_that_ends_is_told_and_two_may_look_at_once() {
    let mut node = node();
    let (mut one, mut other) = (Terminal::open(&node, 100, 30), Terminal::open(&node, 100, 30));
    let screens = [one.follow(), other.follow()];
    for screen in &screens {
        until(screen, b"weir top");
    }
    node.terminate();
    assert!(node.wait_end().success());
    for screen in &screens {
        until(screen, b"disconnected");
    }
    for terminal in [&mut one, &mut other] {
        terminal.near.as_mut().unwrap().write_all(b"q").unwrap();
        assert_eq!(terminal.exit_code(), Some(0));
    }
    // Without a terminal: one screen as text, and a reader that went away is no failure.
    let data = node.data();
    let gone = weir()
        .args(["top", "--data", text(&data)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(1), "the node is gone");
}
