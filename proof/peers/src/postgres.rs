//! PostgreSQL doing the same in functions, with the durability that it comes with: every transaction is synced before
//! it is acknowledged, and transactions that meet share one sync.
//!
//! Three tables (budgets, reservations, settlements); `reserve` and `settle` do one request, and functions over arrays
//! do a batch in one transaction. A batch visits its budgets in order, because two batches that lock the same
//! rows in different orders would deadlock.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::postgres::{Client, NoTls, Statement};
use tempfile::TempDir;

use crate::Size;
use crate::daemon::{Daemon, bound_to_us, find, folder_on_disk, free_port, is_root};
use crate::figures::{Case, Round, interleave};
use crate::settling::{
    Answer, Books, DAY, LIMIT_MICROS, Load, Pairs, Peer, Request, Settling, print_table,
};

/// Where Debian puts the programs of the server.
const PROGRAMS: &[&str] = &["/usr/lib/postgresql/15/bin"];
const INSTALL: &str = "PostgreSQL is not installed; on Debian: apt-get install postgresql-15";
/// Whom PostgreSQL runs as if we are root, which it refuses.
const USER: &str = "postgres";
const CONNECTIONS_MAX: usize = 32;
/// Connections, and requests in one call.
const LOADS: [(usize, usize); 5] = [(1, 1), (8, 1), (32, 1), (1, 64), (4, 64)];
/// What [`settler`] runs: the fastest of them.
const BEST_LOAD: (usize, usize) = (4, 64);
const ROUNDS: usize = 5;

const SCHEMA: &str = "
CREATE TABLE budgets (
  id int PRIMARY KEY, left_micros bigint NOT NULL CHECK (left_micros >= 0), day int NOT NULL,
  day_left_micros bigint NOT NULL, day_limit_micros bigint NOT NULL,
  reserved_micros bigint NOT NULL, spent_micros bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE reservations (
  id bigint PRIMARY KEY, budget int NOT NULL, amount_micros bigint NOT NULL, day int NOT NULL,
  deadline timestamptz NOT NULL, settled bool NOT NULL DEFAULT false) WITH (fillfactor = 70);
CREATE TABLE settlements (
  id bigint PRIMARY KEY, budget int NOT NULL, price_micros bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now());

CREATE FUNCTION reserve(request bigint, of_budget int, amount bigint, today int) RETURNS int AS $$
BEGIN
  INSERT INTO reservations VALUES (request, of_budget, amount, today, now() + interval '2 seconds')
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN 2; END IF;
  UPDATE budgets SET left_micros = left_micros - amount, reserved_micros = reserved_micros + amount,
      day_left_micros = CASE WHEN day = today THEN day_left_micros ELSE day_limit_micros END - amount,
      day = today
    WHERE id = of_budget AND left_micros >= amount
      AND CASE WHEN day = today THEN day_left_micros ELSE day_limit_micros END >= amount;
  IF FOUND THEN RETURN 1; END IF;
  DELETE FROM reservations WHERE id = request;
  RETURN 0;
END $$ LANGUAGE plpgsql;

CREATE FUNCTION settle(request bigint, price bigint) RETURNS int AS $$
DECLARE held reservations;
BEGIN
  UPDATE reservations SET settled = true
    WHERE id = request AND NOT settled AND amount_micros >= price RETURNING * INTO held;
  IF NOT FOUND THEN
    RETURN CASE WHEN EXISTS (SELECT FROM settlements WHERE id = request) THEN 2 ELSE 0 END;
  END IF;
  INSERT INTO settlements VALUES (request, held.budget, price);
  UPDATE budgets SET left_micros = left_micros + held.amount_micros - price,
      day_left_micros = day_left_micros
        + CASE WHEN day = held.day THEN held.amount_micros - price ELSE 0 END,
      reserved_micros = reserved_micros - held.amount_micros, spent_micros = spent_micros + price
    WHERE id = held.budget;
  RETURN 1;
END $$ LANGUAGE plpgsql;

CREATE FUNCTION reserve_all(requests bigint[], of_budgets int[], amounts bigint[], today int)
  RETURNS int[] AS $$
DECLARE answers int[] := array_fill(0, ARRAY[cardinality(requests)]); ask record;
BEGIN
  FOR ask IN SELECT * FROM unnest(requests, of_budgets, amounts) WITH ORDINALITY
      AS asks(request, budget, amount, place) ORDER BY budget LOOP
    answers[ask.place] := reserve(ask.request, ask.budget, ask.amount, today);
  END LOOP;
  RETURN answers;
END $$ LANGUAGE plpgsql;

CREATE FUNCTION settle_all(requests bigint[], of_budgets int[], prices bigint[]) RETURNS int[] AS $$
DECLARE answers int[] := array_fill(0, ARRAY[cardinality(requests)]); win record;
BEGIN
  FOR win IN SELECT * FROM unnest(requests, of_budgets, prices) WITH ORDINALITY
      AS wins(request, budget, price, place) ORDER BY budget LOOP
    answers[win.place] := settle(win.request, win.price);
  END LOOP;
  RETURN answers;
END $$ LANGUAGE plpgsql;";

/// Prints the table.
pub fn run(size: Size) {
    if let Err(error) = compare(size) {
        println!("\nPostgreSQL: NOT MEASURED: {error}");
    }
}

fn compare(size: Size) -> Result<(), String> {
    let server = Server::start(size, CONNECTIONS_MAX)?;
    let version = server.version.clone();
    let server = std::cell::RefCell::new(server);
    let names = LOADS.map(|(connections, many)| {
        format!("PostgreSQL, {connections} connections, {many} a transaction")
    });
    let case = |(connections, many)| -> Case<'_, Pairs> {
        let (server, load) = (&server, load(size, connections, many));
        Box::new(move || server.borrow_mut().round(load))
    };
    let mut cases: Vec<Case<'_, Pairs>> = LOADS.into_iter().map(case).collect();
    let rounds = interleave(size.pick(ROUNDS, 1), &mut cases)?;
    print_table(&format!("PostgreSQL {version}: reserve and settle in plpgsql"), &names, &rounds);
    Ok(())
}

/// A case that runs one round of settlements, to be interleaved with others; its server ends with it.
pub fn settler(size: Size) -> Result<Case<'static, Round>, String> {
    let mut server = Server::start(size, BEST_LOAD.0)?;
    let load = load(size, BEST_LOAD.0, BEST_LOAD.1);
    Ok(Box::new(move || server.round(load).map(|pairs| pairs.settles)))
}

fn load(size: Size, connections: usize, depth: usize) -> Load {
    Load { connections, depth, requests_max: size.pick(20_000, 20), reserve_ms_max: 500 }
}

fn budgets(size: Size) -> usize {
    size.pick(50_000, 50)
}

/// A PostgreSQL of our own, with its connections. Fields drop in order: connections before the process.
struct Server {
    settling: Settling<Link>,
    version: String,
    _daemon: Daemon,
}

impl Server {
    fn round(&mut self, load: Load) -> Result<Pairs, String> {
        self.settling.round(load)
    }

    fn start(size: Size, connections: usize) -> Result<Server, String> {
        let mut daemon = daemon()?;
        let connect = |port: u16| {
            let mut config = Client::configure();
            config.host("127.0.0.1").port(port).user(USER).dbname("postgres").connect(NoTls)
        };
        let mut first = daemon.wait_for(connect)?;
        let version = prepare(&mut first, budgets(size)).map_err(|e| text(&e))?;
        let mut links = vec![Link::new(first).map_err(|e| text(&e))?];
        for _ in 1..connections {
            let link = connect(daemon.port).and_then(Link::new);
            links.push(link.map_err(|e| text(&e))?);
        }
        Ok(Server { settling: Settling::new(links, budgets(size))?, version, _daemon: daemon })
    }
}

/// Makes a cluster in a folder of its own and starts it.
fn daemon() -> Result<Daemon, String> {
    let program = |name: &str| find(name, PROGRAMS).ok_or(INSTALL);
    let (initdb, postgres) = (program("initdb")?, program("postgres")?);
    let (folder, port) = (folder_on_disk()?, free_port()?);
    let user = is_root().then_some(USER);
    if user.is_some() {
        give(&folder)?;
    }
    let data = folder.path().join("data");
    make_cluster(&initdb, &data, user)?;
    let mut command = bound_to_us(&postgres, user);
    command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
    command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
    Daemon::start(command, folder, port)
}

fn give(folder: &TempDir) -> Result<(), String> {
    let id = |flag: &str| -> Result<u32, String> {
        let output = Command::new("id").args([flag, USER]).output().map_err(|e| e.to_string())?;
        let number = String::from_utf8_lossy(&output.stdout);
        number.trim().parse().map_err(|_| format!("there is no user {USER}; {INSTALL}"))
    };
    chown(folder.path(), Some(id("-u")?), Some(id("-g")?)).map_err(|e| e.to_string())
}

fn make_cluster(initdb: &Path, data: &PathBuf, user: Option<&str>) -> Result<(), String> {
    let mut command = bound_to_us(initdb, user);
    command.arg("-D").arg(data).args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]);
    // What is not on the disk yet gets there with the server's first checkpoint.
    let folder = data.parent().unwrap_or(data);
    let output =
        command.arg("--no-sync").current_dir(folder).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "initdb failed (the user {USER} must be able to reach {}): {error}",
            folder.display()
        ));
    }
    Ok(())
}

/// Tables, functions and money; returns the server's version.
fn prepare(client: &mut Client, budgets: usize) -> Result<String, ::postgres::Error> {
    client.batch_execute(SCHEMA)?;
    client.execute(
        "INSERT INTO budgets SELECT id, $2, $3, $2, $2, 0, 0 FROM generate_series(1, $1) AS id",
        &[&(budgets as i32), &LIMIT_MICROS, &DAY],
    )?;
    client.batch_execute("ANALYZE; CHECKPOINT")?;
    Ok(client.query_one("SHOW server_version", &[])?.get(0))
}

/// The message of the server, which the error alone does not show.
fn text(error: &::postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{error}: {told}"),
        None => error.to_string(),
    }
}

/// A connection with its prepared statements.
struct Link {
    client: Client,
    reserve: Statement,
    reserve_all: Statement,
    settle: Statement,
    settle_all: Statement,
}

impl Link {
    fn new(mut client: Client) -> Result<Link, ::postgres::Error> {
        let reserve = client.prepare("SELECT reserve($1, $2, $3, $4)")?;
        let reserve_all = client.prepare("SELECT reserve_all($1, $2, $3, $4)")?;
        let settle = client.prepare("SELECT settle($1, $2)")?;
        let settle_all = client.prepare("SELECT settle_all($1, $2, $3)")?;
        Ok(Link { client, reserve, reserve_all, settle, settle_all })
    }

    fn reserve_codes(&mut self, batch: &[Request]) -> Result<Vec<i32>, ::postgres::Error> {
        if let [one] = batch {
            let row = self
                .client
                .query_one(&self.reserve, &[&one.id, &one.budget, &one.amount_micros, &DAY])?;
            return Ok(vec![row.get(0)]);
        }
        let amounts = column(batch, |request| request.amount_micros);
        let (ids, budgets) = (column(batch, |r| r.id), column(batch, |r| r.budget));
        let row = self.client.query_one(&self.reserve_all, &[&ids, &budgets, &amounts, &DAY])?;
        Ok(row.get(0))
    }

    fn settle_codes(&mut self, batch: &[Request]) -> Result<Vec<i32>, ::postgres::Error> {
        if let [one] = batch {
            let row = self.client.query_one(&self.settle, &[&one.id, &one.price_micros])?;
            return Ok(vec![row.get(0)]);
        }
        let prices = column(batch, |request| request.price_micros);
        let (ids, budgets) = (column(batch, |r| r.id), column(batch, |r| r.budget));
        let row = self.client.query_one(&self.settle_all, &[&ids, &budgets, &prices])?;
        Ok(row.get(0))
    }
}

impl Peer for Link {
    fn reserve(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        answers(self.reserve_codes(batch))
    }

    fn settle(&mut self, batch: &[Request]) -> Result<Vec<Answer>, String> {
        answers(self.settle_codes(batch))
    }

    fn books(&mut self) -> Result<Books, String> {
        let sums = "SELECT sum(left_micros)::bigint, sum(reserved_micros)::bigint,
            (SELECT coalesce(sum(price_micros), 0)::bigint FROM settlements) FROM budgets
            HAVING sum(spent_micros) = (SELECT coalesce(sum(price_micros), 0) FROM settlements)";
        let row = self.client.query_opt(sums, &[]).map_err(|e| text(&e))?;
        let row = row.ok_or("the budgets' spend is not the sum of the settlements")?;
        Ok(Books { left: row.get(0), reserved: row.get(1), spent: row.get(2) })
    }
}

fn column<T>(batch: &[Request], pick: impl Fn(&Request) -> T) -> Vec<T> {
    batch.iter().map(pick).collect()
}

fn answers(codes: Result<Vec<i32>, ::postgres::Error>) -> Result<Vec<Answer>, String> {
    let codes = codes.map_err(|e| text(&e))?;
    codes.into_iter().map(|code| Answer::from_code(code.into())).collect()
}
