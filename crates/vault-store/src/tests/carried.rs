//! Keys that travel in a log on other machines.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{CarriedKeys, Carrier, NotSent, NotTaken, Travelling, TravellingFile};

/// A log on other machines, and what becomes of the next message.
#[derive(Clone, Default)]
struct FakeLog(Arc<Mutex<(Vec<Travelling>, Option<NotSent>)>>);

impl FakeLog {
    fn messages(&self) -> Vec<Travelling> {
        self.0.lock().unwrap().0.clone()
    }

    fn answer(&self, answer: Option<NotSent>) {
        self.0.lock().unwrap().1 = answer;
    }

    /// The keys of a folder, whose changes go to this log.
    fn store(&self, folder: &Path, options: Options) -> KeyStore<TravellingFile> {
        let (file, keys) = KeyFile::open(folder, options).unwrap();
        let log = self.clone();
        let send = move |message| {
            let (messages, answer) = &mut *log.0.lock().unwrap();
            if !matches!(answer, Some(NotSent::Nothing(_))) {
                messages.push(message);
            }
            answer.clone().map_or(Ok(()), Err)
        };
        let file = TravellingFile::new(folder, file, Some(Carrier::new(send))).unwrap();
        let mut store = KeyStore::new(keys, file).unwrap();
        store.unseal(kek()).unwrap();
        // What cannot be sent now is with the next change.
        let _ = store.records_mut().begin();
        store
    }
}

/// Brings a folder to where the log is.
fn follow(folder: &Path, messages: &[Travelling]) -> Result<(), NotTaken> {
    let mut carried = CarriedKeys::new(folder, SMALL).unwrap();
    let from = usize::try_from(carried.count()).unwrap();
    messages[from..].iter().try_for_each(|message| carried.take(message))
}

fn set_mark(folder: &Path, number: usize) {
    std::fs::write(folder.join("carried"), format!("{number}\n")).unwrap();
}

#[test]
fn what_travels_makes_the_same_keys_elsewhere_once() {
    let (log, own, other) = (FakeLog::default(), folder(), folder());
    std::fs::create_dir_all(own.path()).unwrap();
    std::fs::write(own.path().join("passphrase"), "salt").unwrap();
    let mut store = log.store(own.path(), SMALL);
    for number in 0..40 {
        let sent = log.messages().len();
        let changed = store.change(&change(number), 1_000).unwrap_or(false);
        assert_eq!(log.messages().len() - sent, usize::from(changed), "one message each");
    }
    let expected = seen(store.keys());
    drop(store);
    let messages = log.messages();
    assert!(messages.len() > 10 && matches!(messages[0], Travelling::Whole(_)));
    for end in 1..=messages.len() {
        follow(other.path(), &messages[..end]).unwrap();
        // A crash between a record and its number.
        set_mark(other.path(), end - 1);
        follow(other.path(), &messages[..end]).unwrap();
    }
    assert_eq!(kept(other.path()), expected);
    assert_eq!(std::fs::read(other.path().join("passphrase")).unwrap(), b"salt");
    // The bank was killed between the log and its own file.
    let mut store = log.store(own.path(), LARGE);
    let bytes = std::fs::read(own.path().join("keys")).unwrap();
    store.change(&change(1), 2_000).unwrap();
    let expected = seen(store.keys());
    drop(store);
    std::fs::write(own.path().join("keys"), bytes).unwrap();
    set_mark(own.path(), messages.len());
    for folder in [&own, &other] {
        follow(folder.path(), &log.messages()).unwrap();
        assert_eq!(kept(folder.path()), expected);
    }
}

#[test]
fn a_change_that_does_not_travel_is_not_made() {
    let away = || NotSent::Nothing("away".into());
    let unsure = || NotSent::Unsure("no answer".into());
    // What the log says, whether the log has the first message by then, and whether later changes are taken.
    for (answer, begun, goes_on) in [
        (away(), true, true),
        (unsure(), true, false),
        (away(), false, false),
        (unsure(), false, false),
    ] {
        let (log, own) = (FakeLog::default(), folder());
        let mut store = log.store(own.path(), LARGE);
        if begun {
            store.change(&change(0), 1_000).unwrap();
        } else {
            // It had keys before there was a log.
            std::fs::remove_file(own.path().join("carried")).unwrap();
            log.0.lock().unwrap().0.clear();
            drop(store);
            log.answer(Some(answer.clone()));
            store = log.store(own.path(), LARGE);
        }
        let before = seen(store.keys());
        log.answer(Some(answer.clone()));
        let refused = store.change(&change(5), 1_000);
        assert!(matches!(refused, Err(KeyStoreError::Append(_))), "{refused:?}");
        assert_eq!(seen(store.keys()), before);
        log.answer(None);
        assert_eq!(store.change(&change(5), 1_000).is_ok(), goes_on, "{answer:?} {begun}");
        drop(store);
        // A restart has what the log has, and what it has not had yet.
        if begun {
            follow(own.path(), &log.messages()).unwrap();
            let other = folder();
            follow(other.path(), &log.messages()).unwrap();
            assert_eq!(kept(own.path()), kept(other.path()));
        }
    }
}

#[test]
fn before_the_log_can_be_written_to_a_folder_takes_changes_if_nothing_of_it_was_sent() {
    let (log, own) = (FakeLog::default(), folder());
    for begun in [false, true] {
        let (file, keys) = KeyFile::open(own.path(), LARGE).unwrap();
        let file = TravellingFile::new(own.path(), file, Some(Carrier::new(|_| panic!("not yet"))))
            .unwrap();
        let mut store = KeyStore::new(keys, file).unwrap();
        store.unseal(kek()).unwrap();
        // Of one that travels nothing is taken; of another what is taken goes with the whole.
        assert_eq!(store.change(&change(if begun { 0 } else { 5 }), 1_000).is_err(), begun);
        drop(store);
        drop(log.store(own.path(), LARGE));
        assert_eq!(log.messages().len(), 1);
    }
    let other = folder();
    follow(other.path(), &log.messages()).unwrap();
    assert_eq!(kept(other.path()), kept(own.path()));
}

#[test]
fn messages_that_do_not_fit_a_folder_are_refused() {
    let log = FakeLog::default();
    let own = folder();
    log.store(own.path(), LARGE).change(&change(0), 1_000).unwrap();
    let [whole @ Travelling::Whole(bytes), Travelling::Record(record)] = &log.messages()[..] else {
        panic!("{:?}", log.messages())
    };
    let with_keys = || {
        let folder = folder();
        unsealed(folder.path(), LARGE).change(&change(5), 1_000).unwrap();
        folder
    };
    let record = Travelling::Record(record.clone());
    let cut = Travelling::Whole(bytes[..bytes.len() - 1].to_vec());
    let strange = Travelling::Record(vec![9, 9]);
    let rows = [
        (folder(), vec![whole.clone(), record.clone()], ""),
        // Its KEK alone says nothing.
        (folder(), vec![record.clone()], "does not know"),
        (folder(), vec![cut], "does not know"),
        (folder(), vec![Travelling::Whole(Vec::new())], "does not know"),
        (folder(), vec![whole.clone(), strange], "does not know"),
        (folder(), vec![whole.clone(), whole.clone()], "move it aside"),
        (with_keys(), vec![whole.clone()], "move it aside"),
    ];
    for (folder, messages, expected) in rows {
        let taken = follow(folder.path(), &messages).map_err(|error| error.to_string());
        assert_eq!(taken.is_ok(), expected.is_empty(), "{taken:?}");
        assert!(taken.is_ok() || taken.as_ref().unwrap_err().contains(expected), "{taken:?}");
    }
}
