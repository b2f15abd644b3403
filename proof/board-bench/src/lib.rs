//! The server, the frames and the page are the real ones; only the node behind them is made up: budgets in memory, of
//! which so many change at each tick. So a benchmark of the dashboard measures the dashboard, at a pace that it sets.

#![forbid(unsafe_code)]

mod node;
mod world;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use watch::board::LIVE_ROWS;
use watch::{Options, Server, StartError};

pub use world::Mode;
use world::World;

/// What is published.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Budgets.
    pub rows: usize,
    /// Of these change at each tick; not more than `rows`.
    pub deltas: usize,
    /// Which of them.
    pub mode: Mode,
}

/// A server on made-up budgets.
#[derive(Debug)]
pub struct Bench {
    server: Server,
    world: World,
    // Removed when the server has ended: fields are dropped in this order.
    _history: tempfile::TempDir,
}

impl Bench {
    /// Opens the door, with the budgets published once. Pages of `origins` may open live streams too.
    ///
    /// # Errors
    /// The listener or a temporary folder cannot be used.
    pub fn start(
        listener: TcpListener,
        plan: Plan,
        origins: Vec<String>,
    ) -> Result<Bench, StartError> {
        let history = tempfile::tempdir()?;
        let options = Options {
            live_max: 200,
            // A page is told of all that changed at once.
            live_rows: plan.deltas.max(LIVE_ROWS),
            tokens: None,
            tls: None,
            origins,
            history: history.path().to_path_buf(),
            keep_days: 1,
            run_id: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            docs: &[],
        };
        let server = Server::start(listener, options, Arc::new(node::MadeUp), axum::Router::new())?;
        let world = World::new(plan);
        server.board().publish(world.view());
        Ok(Bench { server, world, _history: history })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Changes as many budgets as planned, and publishes.
    pub fn tick(&mut self) {
        self.world.step();
        self.server.board().publish(self.world.view());
    }

    /// Ticks for ever.
    pub fn run(mut self, every: Duration) -> ! {
        loop {
            std::thread::sleep(every);
            self.tick();
        }
    }
}
