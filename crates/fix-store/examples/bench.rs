//! What keeping a message costs: `cargo run --release -p fix-store --example bench [folder]`. Each figure is the best of its rounds.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints and may fail")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fix_session::{Durability, MessageStore, MessageStores};
use fix_store::{FileStores, Options};

const ROUNDS: u32 = 7;

fn best(rounds: u32, mut round: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds per message of steps with so many sent and received messages.
fn store(root: &Path, durability: Durability, messages: u32, steps: u32) -> f64 {
    let mut stores =
        FileStores::open(&root.join(format!("{durability:?}{messages}")), Options::default())
            .unwrap();
    stores.add("CLIENT", durability, 0).unwrap();
    let mut message = b"8=FIX.4.4\x019=228\x0135=D\x0134=2\x0149=A\x0158=".to_vec();
    message.resize(250, b'x');
    best(ROUNDS, || {
        let start = Instant::now();
        for _ in 0..steps {
            let store = stores.store(0);
            for _ in 0..messages {
                store.note_received(&message);
                store.put(&message).unwrap();
            }
            store.set_next_in(2).unwrap();
            stores.flush(&[0]).unwrap();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(steps * messages * 2)
    })
}

/// The same bytes in one bare append per step, beside it.
fn bare(root: &Path, sync: bool, messages: u32, steps: u32) -> f64 {
    let mut file = OpenOptions::new().create(true).append(true).open(root.join("bare")).unwrap();
    let bytes = vec![b'x'; 282 * 2 * messages as usize];
    best(ROUNDS, || {
        let start = Instant::now();
        for _ in 0..steps {
            file.write_all(&bytes).unwrap();
            if sync {
                file.sync_data().unwrap();
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(steps * messages * 2)
    })
}

fn main() {
    let root = std::env::args().nth(1).map_or(std::env::temp_dir(), PathBuf::from);
    let root = root.join(format!("fix-store-bench-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    println!("ns per message of 250 bytes (each step: as many received as sent, one flush)");
    for messages in [1, 16, 64] {
        let written = store(&root, Durability::Written, messages, 20_000 / messages);
        let bare_append = bare(&root, false, messages, 20_000 / messages);
        println!(
            "written, {messages:>2} in a step: {written:>9.0}   one bare append: {bare_append:>9.0}"
        );
    }
    for messages in [1, 64] {
        let sealed = store(&root, Durability::Sealed, messages, 200);
        let bare_append = bare(&root, true, messages, 200);
        println!(
            "sealed,  {messages:>2} in a step: {sealed:>9.0}   one bare append: {bare_append:>9.0}"
        );
    }
    std::fs::remove_dir_all(&root).unwrap();
}
