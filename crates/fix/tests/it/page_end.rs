//! No pass reads a byte outside the message: it stands against a page that may not be read.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "only the kernel can make a page that may not be read")]

use crate::made::{indexes, made, order, text, whole};

/// Three pages, of which the first and the last may not be read.
struct Walled {
    first: *mut u8,
    page: usize,
}

impl Walled {
    fn new() -> Walled {
        // SAFETY: a new anonymous mapping; its result is checked.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let none = std::ptr::null_mut();
            let first = libc::mmap(none, 3 * page, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(first, libc::MAP_FAILED);
            let middle = first.cast::<u8>().add(page);
            let made = libc::mprotect(middle.cast(), page, libc::PROT_READ | libc::PROT_WRITE);
            assert_eq!(made, 0);
            Walled { first: first.cast(), page }
        }
    }

    /// The page that may be read and written.
    fn middle(&mut self) -> &mut [u8] {
        // SAFETY: the middle page of a live mapping of three, which nobody else has.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(self.page), self.page) }
    }
}

impl Drop for Walled {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { libc::munmap(self.first.cast(), 3 * self.page) };
    }
}

#[test]
fn no_pass_reads_beyond_the_message() {
    let mut walled = Walled::new();
    let mut messages = vec![
        order(3),
        made("FIX.4.4", "35=0|"),
        made("FIX.4.4", "35=0|1=|"),
        made("FIX.4.4", "35=0|95=3|96=a|b|"),
        made("FIX.4.4", &format!("35=0|{}", "1=a|".repeat(90))),
        made("FIX.4.4", "35=0|x"),
        made("FIX.4.4", "35=0|=|"),
    ];
    // Every length of what lies behind the last whole block.
    messages.extend((0..70).map(|len| made("FIX.4.4", &format!("35=0|58={}|", "x".repeat(len)))));
    for message in messages.iter().filter(|message| message.ends_with(b"\x01")) {
        let middle = walled.middle();
        let end = middle.len();
        for at in [0, 1, 7, end - message.len() - 9, end - message.len() - 1, end - message.len()] {
            let place = &mut middle[at..at + message.len()];
            place.copy_from_slice(message);
            let fix::Framing::Whole(frame) = fix::frame(place, 65_536) else { continue };
            assert_eq!(frame, whole(message));
            for mut index in indexes() {
                let found = index.read(frame).map(|message| text(&message));
                let wanted = index.read(whole(message)).map(|message| text(&message));
                assert_eq!(found, wanted);
            }
        }
    }
}

#[test]
fn ends_are_found_up_to_the_last_byte_of_a_page() {
    let mut walled = Walled::new();
    let middle = walled.middle();
    middle.fill(1);
    for simd in fix::Simd::all() {
        let mut ends = vec![0; 300];
        for len in 0..200 {
            assert_eq!(simd.field_ends(&middle[middle.len() - len..], &mut ends), Some(len));
            assert_eq!(simd.field_ends(&middle[..len], &mut ends), Some(len));
        }
    }
}
