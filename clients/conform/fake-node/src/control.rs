//! The control connection: lines of JSON from the driver of a client, one answer a line.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::judge;
use crate::node::{self, Node};
use crate::play::Play;
use crate::scenario::{Suite, What};

/// How long `await` waits: far longer than anything takes on a busy machine.
const AWAIT: Duration = Duration::from_secs(20);

/// What a driver says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Order {
    /// Begins the play of this scenario.
    Play(String),
    /// Waits until something came, at least so often.
    Await {
        what: What,
        #[serde(default = "once")]
        count: usize,
    },
    /// Sends what was kept under this label.
    Send(String),
    /// Ends all connections of a node in order.
    Close(usize),
    /// Ends them with a reset.
    Reset(usize),
    /// A node listens no more, and its connections end.
    Down(usize),
    /// It listens again.
    Up(usize),
    /// Ends the play and says what is to be said about the client.
    Judge,
}

const fn once() -> usize {
    1
}

/// Serves drivers until the program ends.
pub fn serve(listener: &TcpListener, suite: &Suite) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let suite = suite.clone();
        std::thread::spawn(move || {
            // A driver that goes away ends its play.
            let _ = talk(&stream, &suite);
        });
    }
}

fn talk(stream: &TcpStream, suite: &Suite) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stage = None;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let answer = match serde_json::from_str::<Order>(&line) {
            Ok(order) => obey(&mut stage, suite, order),
            Err(error) => Err(format!("{line}: {error}")),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "ok": false, "error": error }));
        let mut stream = stream;
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// A play with its nodes.
struct Stage {
    play: Arc<Play>,
    nodes: Vec<Node>,
}

impl Stage {
    fn node(&self, at: usize) -> Result<&Node, String> {
        self.nodes.get(at).ok_or_else(|| format!("there is no node {at}, they are counted from 0"))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for node in &self.nodes {
            node.down();
        }
    }
}

fn obey(stage: &mut Option<Stage>, suite: &Suite, order: Order) -> Result<Value, String> {
    if let Order::Play(name) = order {
        *stage = Some(begin(suite, &name)?);
        let addresses = stage.iter().flat_map(|stage| &stage.nodes);
        let addresses: Vec<String> = addresses.map(|node| node.address.to_string()).collect();
        return Ok(json!({ "ok": true, "nodes": addresses }));
    }
    let on = stage.as_ref().ok_or("no play has begun: the first order is {\"play\":\"NAME\"}")?;
    match order {
        Order::Play(_) => {}
        Order::Await { what, count } => on.play.wait_for(&what, count, AWAIT).map_err(|found| {
            let what = serde_json::to_string(&what).unwrap_or_default();
            format!("{what} came {found} times within {AWAIT:?}, expected {count}")
        })?,
        Order::Send(label) => {
            let kept = on.play.take_kept(&label);
            if kept.is_empty() {
                return Err(format!("nothing is kept under {label:?}"));
            }
            for (conn, bytes) in kept {
                // The client may have closed the connection meanwhile.
                let _ = node::send(&conn, &bytes, None);
            }
        }
        Order::Close(at) => on.node(at)?.end_connections(false),
        Order::Reset(at) => on.node(at)?.end_connections(true),
        Order::Down(at) => on.node(at)?.down(),
        Order::Up(at) => on.node(at)?.up().map_err(|error| error.to_string())?,
        Order::Judge => return Ok(judge::judge(&on.play)),
    }
    Ok(json!({ "ok": true }))
}

fn begin(suite: &Suite, name: &str) -> Result<Stage, String> {
    let scenario = suite.scenarios.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.ok_or_else(|| format!("no scenario is called {name:?}"))?;
    let play = Arc::new(Play::new(scenario.clone()));
    let nodes = (0..play.scripts.len()).map(|at| Node::new(&play, at));
    let nodes = nodes.collect::<std::io::Result<Vec<Node>>>().map_err(|error| error.to_string())?;
    Ok(Stage { play, nodes })
}
