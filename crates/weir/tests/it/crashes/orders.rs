//! A shop that only knows HTTP and keys: each order is a reservation, perhaps its confirmation, and its settlement or its release, every
//! call under a key of its own. What is not answered is sent again, with the same key and body, to the next life of the node, by
//! whichever of two workers its connection meets. Then every order was charged once, or not at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{Place, Rng, another_life, books, journal, number, setup, wait_acknowledgement};
use crate::openrtb::{Answer, Http};
use crate::spend::door;
use crate::support::{Node, cores, wait_for};
use table::SplitMix64;

/// Connections, each with a thread of its own.
const CONNECTIONS: usize = 4;
/// Budgets that are asked: two that never run out, one that does.
const BUDGETS: [u64; 3] = [1, 2, 5];
/// Answered calls that are sent again after each start.
const SAMPLE: u64 = 60;
/// Calls of each connection and life whose order is left as it is, to be gone on with in a later life.
const LEFT_PERCENT: u64 = 20;

/// The calls of an order, by what is to become of it.
const COURSES: [&[&str]; 4] = [
    &["reserve", "settle"],
    &["reserve", "confirm", "settle"],
    &["reserve", "release"],
    &["reserve", "confirm", "release"],
];

/// An order, and how far it has come.
#[derive(Clone, Debug)]
struct Order {
    number: u64,
    budget: u64,
    /// Micros that are reserved; a settlement is of half of it.
    amount: i64,
    token: String,
    /// How many of its calls are answered.
    done: usize,
}

/// A call that was answered with 200, by the order's number and the call's place.
type Answered = BTreeMap<(u64, usize), (Vec<u8>, Vec<u8>)>;

impl Order {
    fn course(&self) -> &'static [&'static str] {
        COURSES[usize::try_from(self.number % 4).unwrap()]
    }

    fn price(&self) -> i64 {
        self.amount / 2
    }

    /// The next call: always the same bytes.
    fn bytes(&self, seed: u64) -> Vec<u8> {
        let Order { number, budget, amount, token, done } = self;
        let call = self.course()[*done];
        let body = match call {
            "reserve" => format!("{{\"budget\":{budget},\"amount\":\"0.{amount:06}\"}}"),
            "settle" => format!("{{\"token\":\"{token}\",\"amount\":\"0.{:06}\"}}", self.price()),
            _ => format!("{{\"token\":\"{token}\"}}"),
        };
        let head = format!(
            "POST /v1/{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: o-{seed}-{number}-{done}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// What became of an order by one answer.
enum Next {
    /// It has another call to make.
    Goes(Order),
    Over,
    /// Not now.
    Later(Order),
    /// No answer: the node is gone, or the connection.
    Lost(Order),
}

/// What was heard, over all lives or in one.
#[derive(Default)]
struct Heard {
    answered: Answered,
    /// Orders that were settled: budget and price.
    settled: BTreeMap<u64, (u64, i64)>,
    refused: u64,
    expired: u64,
}

impl Heard {
    /// Takes the answer to the order's next call.
    fn take(&mut self, mut order: Order, seed: u64, answer: Option<Answer>) -> Next {
        let Some(answer) = answer else { return Next::Lost(order) };
        let call = order.course()[order.done];
        match (answer.status, call) {
            (200, _) => {}
            (402, "reserve") => {
                self.refused += 1;
                return Next::Over;
            }
            // Its hold is gone: what was bought is still settled, and there is nothing to release. The other connection may have done so.
            (410 | 409, "confirm") => {
                self.expired += 1;
                order.done += 1;
                return Next::Goes(order);
            }
            (410, "release") => {
                self.expired += 1;
                return Next::Over;
            }
            (429 | 503, _) => return Next::Later(order),
            _ => panic!("{call} of {order:?}: {answer:?}"),
        }
        let body = answer.json();
        if call == "reserve" {
            order.token = body["token"].as_str().unwrap().to_owned();
        }
        if call == "settle" {
            let verdict = body["verdict"].as_str().unwrap();
            assert!(["settled", "settled_late"].contains(&verdict), "{answer:?}");
            self.settled.insert(order.number, (order.budget, order.price()));
        }
        let place = (order.number, order.done);
        let request = Order { token: order.token.clone(), ..order.clone() }.bytes(seed);
        let first = self.answered.entry(place).or_insert_with(|| (request, answer.body.clone()));
        assert_eq!(first.1, answer.body, "{call} of {order:?}: another answer than the first");
        order.done += 1;
        match order.done < order.course().len() {
            true => Next::Goes(order),
            false => Next::Over,
        }
    }

    fn add(&mut self, other: Heard) {
        for (place, (request, answer)) in other.answered {
            let first = self.answered.entry(place).or_insert_with(|| (request, answer.clone()));
            assert_eq!(first.1, answer, "order {place:?}: another answer than the first");
        }
        self.settled.extend(other.settled);
        self.refused += other.refused;
        self.expired += other.expired;
    }

    /// Sends calls that were answered once more.
    fn hold_to_its_word(&self, node: &Node, places: impl Iterator<Item = (u64, usize)>) {
        let mut http = Http::connect(door(node));
        for place in places {
            let (request, answer) = &self.answered[&place];
            http.send(request);
            let again = http.receive();
            assert_eq!((again.status, &again.body), (200, answer), "order {place:?}");
        }
    }

    fn sample(&self, rng: &mut Rng) -> Vec<(u64, usize)> {
        let count = self.answered.len() as u64;
        let pick = |_| self.answered.keys().nth(usize::try_from(rng.from(1, count)).unwrap() - 1);
        (0..SAMPLE.min(count)).filter_map(pick).copied().collect()
    }
}

/// One connection, until the node is gone: first what it is given, then new orders. Returns the orders that are open.
fn work(
    mut http: Http,
    mut rng: Rng,
    seed: u64,
    mut open: VecDeque<Order>,
    counts: &[AtomicU64; 2],
) -> (Heard, VecDeque<Order>) {
    let (mut heard, mut left) = (Heard::default(), VecDeque::new());
    loop {
        let order = open.pop_front().unwrap_or_else(|| new_order(&mut rng, &counts[0]));
        let answer = match http.try_send(&order.bytes(seed)) {
            true => http.try_receive(),
            false => None,
        };
        match heard.take(order, seed, answer) {
            Next::Over => {
                counts[1].fetch_add(1, Relaxed);
            }
            Next::Goes(order) if rng.percent(LEFT_PERCENT) => left.push_back(order),
            Next::Goes(order) => open.push_front(order),
            Next::Later(order) => {
                open.push_back(order);
                std::thread::sleep(Duration::from_millis(1));
            }
            Next::Lost(order) => {
                left.push_back(order);
                left.append(&mut open);
                return (heard, left);
            }
        }
    }
}

fn new_order(rng: &mut Rng, numbers: &AtomicU64) -> Order {
    let budget = BUDGETS[usize::try_from(rng.from(1, 3)).unwrap() - 1];
    let amount = i64::try_from(rng.from(100, 2_000)).unwrap();
    let number = numbers.fetch_add(1, Relaxed);
    Order { number, budget, amount, token: String::new(), done: 0 }
}

/// Load until a kill. Orders that are open go on at any connection, some of them at two at once.
fn live_and_die(
    mut node: Node,
    rng: &mut Rng,
    heard: &mut Heard,
    open: &mut VecDeque<Order>,
    (seed, numbers): (u64, &mut u64),
) {
    let counts = [AtomicU64::new(*numbers), AtomicU64::new(0)];
    let mut given: Vec<VecDeque<Order>> = vec![VecDeque::new(); CONNECTIONS];
    for order in open.drain(..) {
        let to = usize::try_from(rng.from(1, CONNECTIONS as u64)).unwrap() - 1;
        if rng.percent(40) {
            given[(to + 1) % CONNECTIONS].push_back(order.clone());
        }
        given[to].push_back(order);
    }
    let (until, at_once) = (Duration::from_millis(rng.from(20, 400)), rng.percent(60));
    let ended: Vec<_> = std::thread::scope(|scope| {
        let run = |open| {
            let (http, rng) = (Http::connect(door(&node)), Rng(SplitMix64::new(rng.0.draw())));
            let counts = &counts;
            scope.spawn(move || work(http, rng, seed, open, counts))
        };
        let threads: Vec<_> = given.into_iter().map(run).collect();
        std::thread::sleep(until);
        if at_once {
            wait_acknowledgement(&counts[1]);
        }
        node.child.kill().unwrap();
        node.child.wait().unwrap();
        assert!(!node.log().contains("panicked"), "{}", node.log());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    *numbers = counts[0].load(Relaxed);
    let mut furthest: BTreeMap<u64, Order> = BTreeMap::new();
    for (of_one, left) in ended {
        heard.add(of_one);
        for order in left {
            let known = furthest.entry(order.number).or_insert_with(|| order.clone());
            if order.done > known.done {
                *known = order;
            }
        }
    }
    // The other connection may have heard the last answer.
    let is_open =
        |order: &Order| !heard.answered.contains_key(&(order.number, order.course().len() - 1));
    open.extend(furthest.into_values().filter(is_open));
}

/// Goes on with all orders until each is over.
fn finish(node: &Node, heard: &mut Heard, open: &mut VecDeque<Order>, seed: u64) {
    let mut http = Http::connect(door(node));
    wait_for("the end of every order", || {
        let Some(order) = open.pop_front() else { return true };
        http.send(&order.bytes(seed));
        match heard.take(order, seed, http.try_receive()) {
            Next::Over => {}
            Next::Goes(order) => open.push_front(order),
            Next::Later(order) => open.push_back(order),
            Next::Lost(order) => panic!("no answer to {order:?}: {}", node.log()),
        }
        open.is_empty()
    });
}

#[test]
fn a_shop_that_only_knows_http_and_keys_is_charged_once_for_each_order() {
    let cycles = usize::try_from(number("CRASH_CYCLES", 12)).unwrap();
    let mut place = Place { seed: number("CRASH_SEED", 1), cycle: 0, cycles };
    let seed = place.seed;
    let mut rng = Rng(SplitMix64::new(seed));
    let setup = setup().with("workers.cores", &cores(2));
    let (mut heard, mut open, mut numbers) = (Heard::default(), VecDeque::new(), 0);
    while place.cycle < cycles {
        place.cycle += 1;
        let node = another_life(&setup, &mut rng).start();
        books(&node);
        heard.hold_to_its_word(&node, heard.sample(&mut rng).into_iter());
        live_and_die(node, &mut rng, &mut heard, &mut open, (seed, &mut numbers));
    }
    let node = setup.clone().start();
    let open_at_last = open.len();
    finish(&node, &mut heard, &mut open, seed);
    heard.hold_to_its_word(&node, heard.answered.keys().copied());
    let mut spent: BTreeMap<u64, i64> = BTreeMap::new();
    for (budget, price) in heard.settled.values() {
        *spent.entry(*budget).or_default() += price;
    }
    for row in books(&node) {
        let told = spent.get(&row.id).copied().unwrap_or_default();
        let [settled, over, late] = row.spent;
        assert_eq!(
            (settled + late, over),
            (told, 0),
            "budget {}: the books, and the shop's",
            row.id
        );
    }
    drop(node);
    journal(&["verify"], &setup.data());
    journal(&["audit"], &setup.data());
    let Heard { answered, settled, refused, expired } = heard;
    println!(
        "CRASH_SEED={seed} CRASH_CYCLES={cycles}: {numbers} orders, {} calls answered once, {} orders settled, {expired} calls came \
         after their hold was gone, {refused} orders refused, {open_at_last} finished in the last life",
        answered.len(),
        settled.len()
    );
    assert!(!settled.is_empty());
}
