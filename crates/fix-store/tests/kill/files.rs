//! A process that is killed around the moment at which it goes on in another file `numbers`.

use fix_session::MessageStore;

use super::*;

const FILES: &str = "FIX_STORE_KILL_FILES";
/// So many messages are a file of 8 MiB.
const MESSAGES: u64 = 42;
const MESSAGE_BYTES: usize = 200_000;

fn open(root: &Path) -> FileStores<NumbersFile> {
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for name in ["A", "B"] {
        stores.add(name, Durability::Written, 0).unwrap();
    }
    stores
}

/// The process that is killed; without its folder it is no test. It says a byte for each message that is kept.
#[test]
fn the_writer_that_is_killed() {
    let Ok(folder) = std::env::var(FILES) else { return };
    let mut stores = open(Path::new(&folder));
    loop {
        stores.store(0).put(&vec![b'x'; MESSAGE_BYTES]).unwrap();
        let next_in = stores.store(1).next_in() + 1;
        stores.store(1).set_next_in(next_in).unwrap();
        stores.flush(&[0, 1]).unwrap();
        std::io::stderr().write_all(b"k").unwrap();
    }
}

#[test]
fn a_kill_around_the_change_of_files_loses_nothing() {
    for round in 0..16 {
        let root = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files::the_writer_that_is_killed", "--nocapture"])
            .env(FILES, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = child.stderr.take().unwrap();
        let wanted = MESSAGES - 5 + round;
        said.read_exact(&mut vec![0; usize::try_from(wanted).unwrap()]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = Vec::new();
        said.read_to_end(&mut rest).unwrap();
        let kept = wanted + rest.len() as u64;
        let mut stores = open(root.path());
        let next_out = stores.store(0).next_out();
        assert!([kept + 1, kept + 2].contains(&next_out), "{next_out} of {kept}");
        assert_eq!(stores.store(1).next_in(), next_out);
        let mut message = Vec::new();
        for seq in 1..next_out {
            message.clear();
            assert!(stores.store(0).get(seq, &mut message), "{seq} of {kept}");
        }
    }
}
