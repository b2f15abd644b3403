//! A start that fails behind the first doors.

use std::net::{SocketAddr, TcpListener, TcpStream};

use weir_config::config::Config;

use crate::support::{at_any_port, line};

/// The admin door is the last to open: what it cannot use is found when bank and workers run.
#[test]
fn a_start_that_fails_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.node.data_dir = folder.path().join("data");
    config.budgets.file = folder.path().join("budgets.jsonl");
    std::fs::write(&config.budgets.file, line(1, "1", "")).unwrap();
    config.workers.pin = false;
    config.journal.segment_bytes = 4_194_304;
    at_any_port(&mut config);
    // An address of this test alone: nobody else can listen there meanwhile.
    let free: SocketAddr = TcpListener::bind("127.0.15.1:0").unwrap().local_addr().unwrap();
    config.batch.listen = free.into();
    config.admin.origins = "no origin".into();
    let error = weir_survey::Node::start(&config).unwrap_err().to_string();
    assert!(error.contains("origin"), "{error}");
    assert!(TcpStream::connect(free).is_err(), "a worker still listens");
}
