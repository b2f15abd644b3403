//! Sessions over files: what fails is told to the peer, and what is one change stays one.

use fix::{Index, Message};
use fix_session::{
    Application, Disconnect, MessageStore, MessageStores, Now, Outbox, Role, Session,
    SessionConfig, Turn,
};
use fix_store::{Durability, FileStore, FileStores, NumbersFile, Options};

const NOW: Now = Now { ms: 5_000, unix_ms: 1_795_428_930_000 };

struct Nobody;

impl Application<FileStore> for Nobody {
    fn take(&mut self, _: &mut Session, _: &Message<'_>, _: &mut Turn<'_, FileStore>) {}
}

/// Two sessions of one process on one folder.
struct Pair {
    stores: FileStores<NumbersFile>,
    sessions: [Session; 2],
    out: [Outbox; 2],
    index: Index,
}

impl Pair {
    fn open(root: &std::path::Path) -> Pair {
        let mut stores = FileStores::open(root, Options::default()).unwrap();
        let sessions = [(Role::Initiator, "A", "B"), (Role::Acceptor, "B", "A")];
        let sessions = sessions.map(|(role, us, them)| {
            stores.add(us, Durability::Sealed, NOW.unix_ms).unwrap();
            Session::new(SessionConfig::new(role, "FIX.4.4", us, them)).unwrap()
        });
        let out = [Outbox::default(), Outbox::default()];
        Pair { stores, sessions, out, index: Index::new(64) }
    }

    fn step(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Session, &mut Index, &mut Turn<'_, FileStore>),
    ) {
        let mut turn = Turn { now: NOW, store: self.stores.store(at), out: &mut self.out[at] };
        act(&mut self.sessions[at], &mut self.index, &mut turn);
    }

    fn carry(&mut self, from: usize) {
        self.stores.flush(&[from]).unwrap();
        let bytes = std::mem::take(&mut self.out[from].bytes);
        self.step(1 - from, |session, index, turn| {
            session.feed(&bytes, index, turn, &mut Nobody);
        });
    }

    fn log_on(&mut self) {
        for at in [0, 1] {
            self.step(at, |session, _, turn| session.connected(turn).unwrap());
        }
        self.carry(0);
        self.carry(1);
        self.stores.flush(&[0, 1]).unwrap();
        assert!(self.sessions.iter().all(Session::is_ready));
    }

    fn numbers(&mut self) -> [(u64, u64); 2] {
        [0, 1].map(|at| (self.stores.store(at).next_out(), self.stores.store(at).next_in()))
    }
}

#[test]
fn sessions_go_on_from_their_files() {
    let root = tempfile::tempdir().unwrap();
    let mut pair = Pair::open(root.path());
    pair.log_on();
    assert_eq!(pair.numbers(), [(2, 2), (2, 2)]);
    drop(pair);
    let mut pair = Pair::open(root.path());
    pair.log_on();
    assert_eq!(pair.numbers(), [(3, 3), (3, 3)]);
}

/// A reset and the numbers behind it are one change: a crash before the flush leaves the old ones.
#[test]
fn a_reset_and_its_numbers_are_one_change() {
    let root = tempfile::tempdir().unwrap();
    let mut pair = Pair::open(root.path());
    pair.log_on();
    let before = pair.numbers();
    let store = pair.stores.store(1);
    store.reset(NOW.unix_ms + 1).unwrap();
    store.set_next_in(2).unwrap();
    assert_eq!(pair.numbers()[1], (1, 2));
    drop(pair);
    let mut pair = Pair::open(root.path());
    assert_eq!(pair.numbers(), before);
    let store = pair.stores.store(1);
    store.reset(NOW.unix_ms + 1).unwrap();
    store.set_next_in(2).unwrap();
    pair.stores.flush(&[1]).unwrap();
    drop(pair);
    let mut pair = Pair::open(root.path());
    assert_eq!(pair.numbers(), [before[0], (1, 2)]);
    assert_eq!(pair.stores.store(1).created_unix_ms(), NOW.unix_ms + 1);
}

/// The folder is taken away under the process. The session that needs it tells its peer; nothing of the step leaves, and when the disk is
/// back both go on where they were.
#[test]
fn a_store_that_fails_logs_the_session_out_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    let mut pair = Pair::open(root.path());
    pair.log_on();
    drop(pair);
    let mut pair = Pair::open(root.path());
    let folder = root.path().join("s-B");
    pair.log_on();
    let before = pair.numbers()[1];
    pair.stores.set_numbers(0, 4, 3).unwrap();
    // A lowered number begins a segment, which cannot be made now.
    std::fs::rename(&folder, root.path().join("away")).unwrap();
    let failed = pair.stores.set_numbers(1, 1, 1).unwrap_err();
    assert!(failed.reason.contains("cannot create"), "{failed}");
    assert_eq!(pair.numbers()[1], before);
    pair.step(1, |session, _, turn| session.store_failed(failed.clone(), turn));
    let said = String::from_utf8_lossy(&pair.out[1].bytes).replace('\x01', "|");
    let number = before.0 + 1;
    assert!(said.contains("|35=5|") && said.contains(&format!("|34={number}|")), "{said}");
    assert!(said.contains("|58=Message store not available|"), "{said}");
    assert!(matches!(pair.out[1].disconnect, Some(Disconnect::Store(_))));
    std::fs::rename(root.path().join("away"), &folder).unwrap();
    pair.out = Default::default();
    pair.sessions[0].disconnected();
    pair.stores.set_numbers(0, before.1, before.0).unwrap();
    pair.log_on();
}
