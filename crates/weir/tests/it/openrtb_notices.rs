//! Who may say what by a notice: each id is good for its own kind, and no notice takes money back that was won.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ledger::KeyRing;
use ledger::note::SHORT_NOTE_LEN;
use ledger_journal::{Disk, Durability};
use serde_json::json;

use crate::openrtb::{
    Bid, Http, campaign, check_no_violation, counts_at_rest, creative, get, patient, request,
    wait_count,
};
use crate::support::{Node, Setup, output, over_transports, stderr, stdout, text, weir};

/// Money for ten bids of 0.002.
fn ten() -> Setup {
    patient(&[campaign(1, json!({"limit": "0.02"}))]).with("workers.cores", "0")
}

fn ten_bids(node: &Node, http: &mut Http) -> Vec<Bid> {
    let bids = (0..10).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    node.wait_budget(1, "all of it held", |books| books.held == 20_000);
    bids
}

/// The path of a notice of one kind with the id of another.
fn turned(bid: &Bid, from: &str, to: &str) -> String {
    let (field, word) = match from {
        "win" => ("nurl", "/n/win/"),
        "bill" => ("burl", "/n/bill/"),
        _ => ("lurl", "/n/loss/"),
    };
    let path = bid.path(field, Some("2"), Some("USD"));
    assert!(path.contains(word), "{path}");
    path.replace(word, &format!("/n/{to}/"))
}

/// A billing notice's address stands in markup, where everybody reads it. Whoever turns it into a loss notice would have
/// the money bid again, and then all of it billed.
#[test]
fn the_id_of_a_billing_notice_loses_no_bid() {
    over_transports(ten, |node| {
        let mut http = Http::to(node);
        let bids = ten_bids(node, &mut http);
        for bid in &bids {
            assert_eq!(http.notice(&turned(bid, "bill", "loss")), 404);
        }
        assert_eq!(node.budget(1).held, 20_000);
        assert!(http.bid(&request("more", json!({}))).is_none(), "nothing is free");
        for bid in &bids {
            assert_eq!(http.bill(bid), 204);
        }
        let books = node.wait_budget(1, "all of it spent", |books| books.held == 0);
        assert_eq!((books.settled, books.over_settled, books.late), (20_000, 0, 0));
        wait_count(node, "wrong_kind_notices", 10);
        assert_eq!(counts_at_rest(node)["forged_notices"], 0);
        check_no_violation(node);
    });
}

#[test]
fn the_id_of_one_kind_is_none_of_another() {
    let node = patient(&[campaign(1, json!({}))]).start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("r", json!({})));
    node.wait_budget(1, "the hold", |books| books.held == 2_000);
    let kinds = ["win", "bill", "loss"];
    for from in kinds {
        for to in kinds.into_iter().filter(|to| *to != from) {
            assert_eq!(http.notice(&turned(&bid, from, to)), 404, "{from} as {to}");
        }
    }
    wait_count(&node, "wrong_kind_notices", 6);
    for name in ["win_notices", "billing_notices", "loss_notices", "forged_notices"] {
        wait_count(&node, name, 0);
    }
    let books = node.budget(1);
    assert_eq!((books.held, books.settled), (2_000, 0));
    assert_eq!([http.win(&bid), http.bill(&bid)], [204; 2]);
    assert_eq!(node.budget(1).settled, 2_000);
    let longest = ["nurl", "burl", "lurl"].map(|field| bid.text(field).len());
    assert!(longest.iter().all(|len| *len < 255), "{longest:?}");
}

/// Whatever order win, loss and bill come in, over whichever workers.
#[test]
fn a_loss_notice_frees_no_money_that_was_won() {
    // Two workers where there are two cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let list = if cores > 1 { "0,1" } else { "0" };
    let setup = || patient(&[campaign(1, json!({}))]).with("workers.cores", list);
    over_transports(setup, |node| {
        let mut conns: Vec<Http> = (0..6).map(|_| Http::to(node)).collect();
        let bid = conns[0].bid_soon(&request("won", json!({})));
        assert_eq!(conns[0].win(&bid), 204);
        // Answered as any other, so that no exchange repeats it for ever.
        conns.iter_mut().for_each(|http| assert_eq!(http.lose(&bid), 204));
        wait_count(node, "loss_after_win", 6);
        assert_eq!(node.budget(1).held, 2_000);
        assert_eq!([conns[1].bill(&bid), conns[2].lose(&bid), conns[1].win(&bid)], [204; 3]);
        let books = node.wait_budget(1, "no hold", |books| books.held == 0);
        assert_eq!((books.settled, books.late), (2_000, 0), "{books:?}");
        // Lost before it was won: the money is free once, and the win takes nothing.
        let bid = conns[0].bid_soon(&request("lost", json!({})));
        node.wait_budget(1, "the hold", |books| books.held == 2_000);
        assert_eq!([conns[1].lose(&bid), conns[2].lose(&bid), conns[2].win(&bid)], [204; 3]);
        let books = node.wait_budget(1, "no hold", |books| books.held == 0);
        assert_eq!((books.settled, books.unspent()), (2_000, 999_998_000));
        // All at once: either it was lost, or it was won and is held until it is billed.
        for n in 1..=6 {
            let bid = conns[0].bid_soon(&request(format!("race-{n}"), json!({})));
            for (at, http) in conns.iter_mut().enumerate() {
                let kind = if at % 2 == 0 { "lurl" } else { "nurl" };
                http.send(&get(&bid.path(kind, Some("2"), Some("USD"))));
            }
            conns.iter_mut().for_each(|http| assert_eq!(http.receive().status, 204));
            assert_eq!(conns[0].bill(&bid), 204);
            let books = node.wait_budget(1, "no hold", |books| books.held == 0);
            assert_eq!(books.settled + books.late, 2_000 + n * 2_000, "{books:?}");
        }
    });
}

#[test]
fn without_loss_notices_bids_have_no_address_for_them_and_old_ones_free_nothing() {
    let setup = patient(&[campaign(1, json!({}))]);
    let node = setup.clone().start();
    let mut http = Http::to(&node);
    let before = http.bid_soon(&request("r", json!({})));
    node.wait_budget(1, "the hold", |books| books.held == 2_000);
    drop((http, node));
    let node = setup.with("openrtb.loss_notices", "false").start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("s", json!({})));
    assert!(bid.json.get("lurl").is_none(), "{}", bid.json);
    assert_eq!((http.lose(&before), http.lose(&before)), (204, 204));
    wait_count(&node, "loss_ignored", 2);
    assert_eq!([http.win(&before), http.bill(&before)], [204; 2]);
    let books = node.budget(1);
    assert_eq!((books.settled, books.late), (2_000, 0), "{books:?}");
}

/// The keys of a node that does not run.
fn keys(setup: &Setup) -> KeyRing {
    let disk = Disk::open(&setup.data().join("journal"), Durability::Os).unwrap();
    let options = ledger::Options::default();
    let recovered = ledger_journal::recover(&disk, &options, 1, &mut |_| {}).unwrap();
    let key = *recovered.bank.keys().last().unwrap();
    KeyRing::new(1, key.id, key.key.0)
}

/// What a bid's address of billing notices has as its id.
fn id_of(bid: &Bid) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(bid.bill_path().split('/').nth(3).unwrap()).unwrap()
}

/// The id of a bid as earlier versions made it: one for all kinds, and nothing enciphered.
fn of_earlier_version(keys: &KeyRing, bid: &Bid) -> String {
    let id = id_of(bid);
    let (hold, note) = keys.open_note(&id).unwrap();
    assert_eq!(note[55] & 0b1100, 0b1000, "an id of a billing notice");
    assert_eq!(note[55] & 0b111_0000, 0b100_0000, "a first-price auction, no markup");
    let mut short: [u8; SHORT_NOTE_LEN] = *note.first_chunk().unwrap();
    short[31] = note[55] & !0b111_1100;
    URL_SAFE_NO_PAD.encode(keys.seal_note_openly(&hold, &short))
}

/// Bids that are out while a node is replaced by its next version.
#[test]
fn an_id_of_an_earlier_version_confirms_and_settles_and_takes_nothing_back() {
    let setup = patient(&[campaign(1, json!({}))]);
    let node = setup.clone().start();
    let mut http = Http::to(&node);
    let bids: Vec<Bid> = (0..2).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    node.wait_budget(1, "the holds", |books| books.held == 4_000);
    assert_ne!(id_of(&bids[0])[16..48], id_of(&bids[1])[16..48], "they are enciphered");
    drop((http, node));
    let ring = keys(&setup);
    let old: Vec<String> = bids.iter().map(|bid| of_earlier_version(&ring, bid)).collect();
    let node = setup.start();
    let mut http = Http::to(&node);
    assert_eq!(http.notice(&format!("/n/win/{}/p-2/c-USD", old[0])), 204);
    for id in &old {
        assert_eq!(http.notice(&format!("/n/loss/{id}/p-2/c-USD/l-102")), 204);
    }
    wait_count(&node, "loss_ignored", 2);
    // What they name counts as it did then, whatever the kind of the auction; and as of all notices the highest price.
    for (id, price) in old.iter().chain(&old).zip(["2", "0.001", "2", "2"]) {
        assert_eq!(http.notice(&format!("/n/bill/{id}/p-{price}/c-USD")), 204);
    }
    let books = node.budget(1);
    assert_eq!((books.settled, books.over_settled, books.late), (4_000, 0, 0), "{books:?}");
    wait_count(&node, "repeated_notices", 1);
    wait_count(&node, "topped_up_notices", 1);
    wait_count(&node, "wrong_kind_notices", 0);
}

/// An id travels through browsers and logs. Of the bid it shows no price and no user, nor whether two are of one user.
#[test]
fn an_id_shows_neither_price_nor_user() {
    let setup = patient(&[campaign(0x1a2b_3c4d_5e6f_7a8b, json!({}))]);
    let node = setup.clone().start();
    let mut http = Http::to(&node);
    let user = json!({"user": {"id": "u"}});
    let tested = json!({"user": {"id": "u"}, "test": 1});
    let mut bids: Vec<Bid> = (0..6).map(|n| http.bid_soon(&request(n, user.clone()))).collect();
    bids.extend((6..12).map(|n| http.bid_soon(&request(n, tested.clone()))));
    drop((http, node));
    let ring = keys(&setup);
    let ids: Vec<Vec<u8>> = bids.iter().map(id_of).collect();
    let openly: Vec<Vec<u8>> = ids
        .iter()
        .map(|id| {
            let (hold, note) = ring.open_note(id).unwrap();
            assert_ne!(note[8..16], [0; 8], "a user");
            assert_eq!(note[16..24], 2_000_000_i64.to_le_bytes());
            ring.seal_note_openly(&hold, note.first_chunk().unwrap()).to_vec()
        })
        .collect();
    // Amount, campaign, user and price, wherever in the id; and no two ids are alike in these.
    for open in &openly {
        for id in &ids {
            for secret in open[16..48].chunks(8) {
                assert!(id.windows(8).all(|bytes| bytes != secret), "{secret:?} in {id:?}");
            }
        }
    }
    let mut parts: Vec<&[u8]> = ids.iter().flat_map(|id| id[16..48].chunks(8)).collect();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(parts.len(), ids.len() * 4);
}

/// The billing notice's address as it stands in markup, with a price.
fn markup_path(bid: &Bid, price: &str) -> String {
    let (_, rest) = bid.text("adm").split_once("<i>http://").unwrap();
    let (_, path) = rest.split_once("</i>").unwrap().0.split_once('/').unwrap();
    let path = path.replace("${AUCTION_PRICE}", price).replace("${AUCTION_CURRENCY}", "USD");
    format!("/{path}")
}

/// The price of a notice is not protected: a viewer who finds the address in markup can call it first, with any price.
#[test]
fn whoever_sees_a_notice_does_not_set_its_price() {
    let telling = creative("t", json!({"markup": "<i>${WEIR_BURL}</i>"}));
    let telling = json!({"creatives": [telling], "seat": "s2"});
    let node = patient(&[campaign(1, json!({"seat": "s1"})), campaign(2, telling)]).start();
    let mut http = Http::to(&node);
    let ask = |seat: &str, at: u8| request("p", json!({"at": at, "wseat": [seat]}));
    // In markup nothing but the bid counts; and the exchange's own notice changes nothing any more.
    for (at, count) in [(1, 1), (2, 3)] {
        let bid = http.bid_soon(&ask("s2", at));
        assert_eq!(bid.text("burl"), "");
        let before = node.budget(2).settled;
        assert_eq!(http.notice(&markup_path(&bid, "0.000001")), 204);
        assert_eq!(http.notice(&markup_path(&bid, "4")), 204);
        assert_eq!(node.budget(2).settled, before + 2_000, "at {at}");
        wait_count(&node, "price_in_markup", count + 1);
    }
    // A lower price is that of a second-price auction alone, down to a share of the bid.
    let mut settled = 0;
    for (at, price, cost) in [
        (1, "0.000001", 2_000),
        (1, "1.97", 2_000),
        (1, "1.98", 1_980),
        (1, "4", 2_000),
        (2, "0.000001", 2_000),
        (2, "0.019999", 2_000),
        (2, "0.02", 20),
        (2, "1.5", 1_500),
        (2, "4.1", 2_000),
    ] {
        let bid = http.bid_soon(&ask("s1", at));
        assert_eq!(bid.price_micros, 2_000_000);
        assert_eq!(http.notice(&bid.path("burl", Some(price), Some("USD"))), 204);
        settled += cost;
        let books = node.budget(1);
        assert_eq!((books.settled, books.over_settled), (settled, 0), "at {at}: {price}");
    }
    wait_count(&node, "topped_up_notices", 0);
    wait_count(&node, "price_not_bid", 3);
    wait_count(&node, "price_too_low", 2);
    wait_count(&node, "price_absurd", 1);
    check_no_violation(&node);
}

/// Were what a low price leaves free at once, it would be bid again, and the true prices would be spent above the limit.
#[test]
fn low_prices_sent_first_let_nobody_spend_above_the_limit() {
    let mut node = ten().start();
    let mut http = Http::to(&node);
    let second = json!({"at": 2});
    let bids: Vec<Bid> = (0..10).map(|n| http.bid_soon(&request(n, second.clone()))).collect();
    for bid in &bids {
        assert_eq!(http.notice(&bid.path("burl", Some("0.02"), Some("USD"))), 204);
    }
    let books = node.wait_budget(1, "the least of each", |books| books.settled == 200);
    assert_eq!((books.held, books.free), (19_800, 0), "{books:?}");
    for n in 0..20 {
        assert!(http.bid(&request(n, second.clone())).is_none(), "nothing is free");
    }
    node = node.restart();
    let mut http = Http::to(&node);
    for bid in &bids {
        assert_eq!(http.notice(&bid.path("burl", Some("2"), Some("USD"))), 204);
    }
    let books = node.wait_budget(1, "the true prices", |books| books.settled == 20_000);
    assert_eq!((books.held, books.over_settled, books.late), (0, 0, 0), "{books:?}");
    wait_count(&node, "topped_up_notices", 10);
    check_no_violation(&node);
    // Who trusts the notices says so.
    let node = ten().with("openrtb.keep_rests", "false").start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("p", second));
    assert_eq!(http.notice(&bid.path("burl", Some("0.02"), Some("USD"))), 204);
    node.wait_budget(1, "the rest is free", |books| books.settled == 20 && books.held == 0);
}

/// Who sees the notice of a second-price auction can send it first, with the least price that counts. The exchange's own then books the
/// rest, also after a kill; and a lower one that comes later takes nothing back.
#[test]
fn of_billing_notices_the_highest_price_counts_in_any_order() {
    let mut node = patient(&[campaign(1, json!({}))]).start();
    let mut spent = 0;
    let mut expected_over = 0;
    for (prices, highest, over) in [
        (["0.02", "1.5", "1.5"], 1_500, 0),
        (["1.5", "0.02", "1.5"], 1_500, 0),
        (["0.02", "1", "1.2"], 1_200, 0),
        // Above the bid, as far as that can be meant; a price that cannot counts as the bid.
        (["0.02", "3", "9"], 3_000, 1_000),
        (["0.02", "0.000001", "1.9"], 2_000, 0),
    ] {
        let mut http = Http::to(&node);
        let bid = http.bid_soon(&request("p", json!({"at": 2})));
        for (at, price) in prices.iter().enumerate() {
            if at == 2 {
                node = node.restart();
                http = Http::to(&node);
            }
            assert_eq!(http.notice(&bid.path("burl", Some(price), Some("USD"))), 204);
        }
        (spent, expected_over) = (spent + highest, expected_over + over);
        let books = node.budget(1);
        assert_eq!(books.settled + books.over_settled, spent, "{prices:?}");
        assert_eq!((books.over_settled, books.late), (expected_over, 0), "{prices:?}");
        books.check();
    }
    // The last process heard the last notice alone.
    wait_count(&node, "repeated_notices", 1);
    check_no_violation(&node);
    let data = node.data();
    for (words, says) in [
        ("audit --json", r#""well":true"#),
        ("inspect --type topped_up --json", r#""total":"0.003""#),
        ("export --from 2020-01-01 --to 2100-01-01 --format csv", ",topped_up,"),
    ] {
        let words = words.split(' ');
        let ran = output(weir().arg("journal").args(words).args(["--data", text(&data)]));
        let said = stdout(&ran).replace(' ', "");
        assert!(ran.status.success() && said.contains(says), "{said}{}", stderr(&ran));
    }
}
