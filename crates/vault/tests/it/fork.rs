//! The generator in a forked child.
#![allow(unsafe_code)] // reason: only fork makes a child that goes on with a copy of memory

use std::io::{Read, Write};

use vault::Drbg;

fn draw(random: &mut Drbg) -> [u8; 32] {
    let mut bytes = [0; 32];
    random.fill(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_child_draws_other_randomness() {
    let mut random = Drbg::new().unwrap();
    draw(&mut random);
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the child allocates nothing that another thread may hold locked: it draws bits, writes them to a pipe and leaves
    // without running destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    let drawn = draw(&mut random);
    if child == 0 {
        let written = writer.write_all(&drawn);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(written.is_err())) };
    }
    drop(writer);
    let mut of_child = Vec::new();
    reader.read_to_end(&mut of_child).unwrap();
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(of_child.len(), 32, "the child wrote what it drew");
    assert_ne!(of_child, drawn, "child and parent drew the same bits");
}
