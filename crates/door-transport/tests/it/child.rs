//! Cases that need limits of the whole process, so they run in one of their own: this binary again,
//! started by a shell that sets them.

use std::env;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use door_transport::{Options, TaskRun, Transport};

use crate::support::{Client, Server, wait_for};

const BACKEND: &str = "DOOR_TRANSPORT_CHILD";

fn run_child(options: &Options, case: &str, descriptors: u32) {
    let backend = match (options.transport, options.cooperative) {
        (Transport::Epoll, _) => "epoll",
        (_, TaskRun::Defer) => "io_uring-defer",
        (_, TaskRun::Coop) => "io_uring-coop",
    };
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "hard=$(ulimit -H -n); want={descriptors}; \
             [ \"$hard\" = unlimited ] || [ \"$hard\" -ge \"$want\" ] || want=$hard; \
             ulimit -S -n \"$want\" && exec \"$0\" --ignored --exact child::{case}"
        ))
        .arg(env::current_exe().unwrap())
        .env(BACKEND, backend)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

fn in_child(case: fn(Options)) {
    if let Ok(backend) = env::var(BACKEND) {
        crate::support::over(&backend, case);
    }
}

pub fn ten_hundred_and_more_idle_connections(options: Options) {
    run_child(&options, "idle_child", 6000);
}

#[test]
#[ignore = "run by its parent, with limits"]
fn idle_child() {
    in_child(|options| {
        let server = Server::start(Options { connections_max: 4000, ..options });
        // Both ends of each are ours. Some systems let a process have fewer descriptors than it takes.
        let count = 2500.min((descriptors() - 100) / 2);
        assert!(count >= 400, "{count} connections are no crowd");
        let mut clients: Vec<Client> = (0..count).map(|_| server.client()).collect();
        let counters = server.handle.counters();
        wait_for(|| counters.connections.get() == count as u64, "all connections");
        for index in [0, 1, count / 2, count - 1] {
            clients[index].echo(b"one among many");
        }
        assert_eq!(counters.refused_full.get(), 0);
        drop(clients);
        wait_for(|| counters.connections.get() == 0, "all gone");
        server.stop();
    });
}

/// How many this process may have open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    files.split_whitespace().next().unwrap().parse().unwrap_or(usize::MAX)
}

pub fn without_descriptors_accepting_pauses(options: Options) {
    run_child(&options, "descriptors_child", 64);
}

#[test]
#[ignore = "run by its parent, with limits"]
fn descriptors_child() {
    in_child(|options| {
        let server = Server::start(options);
        let mut first = server.client();
        first.echo(b"before");
        // Take every descriptor there is, then give back one: enough for our end of one more.
        let mut hoard = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            hoard.push(file);
        }
        hoard.pop();
        let mut second = server.client();
        let counters = server.handle.counters();
        wait_for(|| counters.accept_backoffs.get() >= 2, "a pause and another try");
        first.echo(b"others are served meanwhile");
        // Paused, not spinning: the tries are 100 ms apart, and each takes a few turns.
        let began = Instant::now();
        let (tries, turns) = (counters.accept_backoffs.get(), counters.wakeups.get());
        thread::sleep(Duration::from_millis(300));
        let (tries, turns) =
            (counters.accept_backoffs.get() - tries, counters.wakeups.get() - turns);
        let tries_max = u64::try_from(began.elapsed().as_millis()).unwrap() / 100 + 2;
        assert!(tries <= tries_max && turns <= 8 * tries_max, "{tries} tries, {turns} turns");
        drop(hoard);
        second.echo(b"after");
        drop((first, second));
        server.stop();
    });
}
