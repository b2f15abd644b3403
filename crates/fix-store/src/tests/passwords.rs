//! Passwords are in no file.

use std::fs;

use super::*;

#[test]
fn no_file_has_a_password() {
    let root = folder();
    let mut stores = open(root.path(), 600);
    let planted = "PLANTED";
    let mut messages = Vec::new();
    for msg_type in ["A", "BE"] {
        for tag in [554, 925, 1400, 1401, 1402, 1403, 1404, 96] {
            messages.push(format!("35={msg_type}|34=1|553=me|{tag}={planted}|108=30|"));
            messages.push(format!(
                "35={msg_type}|95=7|96={planted}|1401=7|1402={planted}|{tag}={planted}|"
            ));
            messages.push(format!("35={msg_type}|95=99999|96=x|{tag}={planted}|"));
        }
    }
    for body in messages {
        let body = body.replace('|', "\x01");
        let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
        let sum = fix::sum(&message);
        message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
        let store = stores.store(0);
        store.note_received(&message);
        store.put(&message).unwrap();
        stores.flush(&[0]).unwrap();
    }
    let mut files = 0;
    for folder in [root.path().to_owned(), root.path().join("s-A")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files += 1;
                let bytes = fs::read(&path).unwrap();
                let found = bytes.windows(planted.len()).any(|window| window == planted.as_bytes());
                assert!(!found, "{}", path.display());
            }
        }
    }
    assert!(files > 10);
    let first = got(stores.store(0), 1).unwrap();
    let text = String::from_utf8(first).unwrap().replace('\x01', "|");
    assert!(text.contains("|553=me|554=***|108=30|"), "{text}");
}
