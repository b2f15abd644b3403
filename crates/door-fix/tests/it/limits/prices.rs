//! Orders that may be executed at the market: what symbols cost, as a file says or as they were executed last.

use std::sync::Arc;

use weir_budgets::prices::Prices;

use super::{Gate, VENUE};

const FILE: &str = r#"{"symbol":"X","price":"10"}
{"symbol":"Y","price":"10"}
{"symbol":"OLD","price":"10","at":"2026-11-01T00:00:00Z"}
{"symbol":"BIG","price":"999999999999999999"}
"#;

const NONE: &str = "no reference price";
const KINDS: &str = "OrdType (40): expected 1, 2, 3, 4, 5, B or K with limits";
const SIDE: &str = "Side (54): expected";
const BOTH: &str = "OrderQty (38) and CashOrderQty (152): expected one";
const PIECES: &str = "budget 3 counts quantity: expected an order by quantity";
/// Fields of an order of ten pieces unless they say another amount; what budget 1 holds for it, or why it does not leave.
const ROWS: &[(&str, &str)] = &[
    // With a limit: limit, limit on close, stop limit.
    ("40=2|44=9|54=1|55=Y", "90.00"),
    ("40=B|44=9|54=1|55=Y", "90.00"),
    ("40=4|44=9|99=8|54=1|55=Y", "90.00"),
    ("40=2|44=30|54=1|55=Y", "300.00"),
    ("40=2|54=1|55=Y", "Price (44): expected a number"),
    ("40=2|44=1234567890123456789|54=1|55=Y", "Price (44): expected a number"),
    ("40=2|44=0|54=1|55=Y", "price 0: expected more than 0"),
    ("40=2|44=-9|54=1|55=Y", "price -9: expected more than 0"),
    // Without one: market, on close, market to limit, stop.
    ("40=1|54=1|55=Y", "105.00"),
    ("40=1|44=0|54=1|55=Y", "105.00"),
    ("40=5|54=1|55=Y", "105.00"),
    ("40=K|54=1|55=Y", "105.00"),
    ("40=3|99=12|54=1|55=Y", "126.00"),
    ("40=3|99=8|54=1|55=Y", "105.00"),
    ("40=3|54=1|55=Y", "StopPx (99): expected a number"),
    ("40=3|99=0|54=1|55=Y", "price 0: expected more than 0"),
    ("40=3|99=8|99=9|54=1|55=Y", "a field of the order appears twice"),
    ("40=1|54=1|55=N", NONE),
    ("40=1|54=1", NONE),
    ("40=1|54=1|55=OLD", NONE),
    ("40=3|99=12|54=1|55=N", NONE),
    ("40=1|54=1|55=BIG", "out of range"),
    // Sales, short ones too.
    ("40=2|44=1|54=2|55=Y", "105.00"),
    ("40=2|44=20|54=2|55=Y", "200.00"),
    ("40=2|44=1|54=2|55=N", "10.00"),
    ("40=2|44=-1|54=2|55=Y", "price -1: expected more than 0"),
    ("40=4|44=1|99=8|54=2|55=N", "84.00"),
    ("40=1|54=2|55=Y", "105.00"),
    ("40=3|99=8|54=2|55=Y", "105.00"),
    ("40=1|54=2|55=N", NONE),
    ("40=2|44=1|54=5|55=Y", "105.00"),
    ("40=1|54=6|55=Y", "105.00"),
    // Pegs, discretion, reserve.
    ("40=P|54=1|55=Y", KINDS),
    ("40=2|44=9|211=1|54=1|55=Y", "PegOffsetValue (211) is not supported"),
    ("40=2|44=9|388=0|54=1|55=Y", "DiscretionInst (388) is not supported"),
    ("40=2|44=9|389=1|54=1|55=Y", "DiscretionOffsetValue (389) is not supported"),
    ("40=2|44=9|18=R|54=1|55=Y", "90.00"),
    ("40=1|18=P|54=1|55=Y", "105.00"),
    ("40=2|44=9|111=1|54=1|55=Y", "90.00"),
    // An amount of money.
    ("152=50|40=1|54=1|55=N", "50.00"),
    ("152=50.5|40=2|44=9|54=1|55=Y", "50.50"),
    ("152=50|40=1|54=2|55=Y", "50.00"),
    ("152=50|38=10|40=1|54=1|55=Y", BOTH),
    ("152=0|40=1|54=1|55=Y", "quantity 0: expected more than 0"),
    ("152=-5|40=1|54=1|55=Y", "quantity -5: expected more than 0"),
    ("152=x|40=1|54=1|55=Y", "CashOrderQty (152): expected a number"),
    ("152=50|40=1|54=2|55=X", PIECES),
    // Contracts, kinds of prices, currencies.
    ("854=1|40=2|44=9|54=1|55=Y", "QtyType (854): expected 0"),
    ("231=10|40=2|44=9|54=1|55=Y", "ContractMultiplier (231) is not supported"),
    ("423=1|40=2|44=9|54=1|55=Y", "PriceType (423): expected 2"),
    ("423=2|40=2|44=9|54=1|55=Y", "90.00"),
    ("15=EUR|40=1|54=1|55=Y", "budget 1 counts USD: expected an order in"),
    ("15=USD|40=1|54=1|55=Y", "105.00"),
    // Other sides, legs, other kinds.
    ("40=2|44=9|54=3|55=Y", SIDE),
    ("40=2|44=9|54=7|55=Y", SIDE),
    ("40=2|44=9|54=8|55=Y", SIDE),
    ("40=2|44=9|54=9|55=Y", SIDE),
    ("40=2|44=9|54=B|55=Y", SIDE),
    ("555=2|40=2|44=9|54=1|55=Y", "legs (555) are not supported"),
    ("40=J|54=1|55=Y", KINDS),
    ("40=Z|44=9|54=1|55=Y", KINDS),
    ("44=9|54=1|55=Y", KINDS),
];

fn priced(file: &str) -> Gate {
    let mut gate = Gate::new("FIX.4.4");
    set(&mut gate, file);
    gate
}

fn set(gate: &mut Gate, file: &str) {
    let prices = Prices::of("p.jsonl".as_ref(), file.as_bytes()).unwrap();
    gate.desk.door.set_prices(Arc::new(prices));
}

#[test]
fn each_kind_of_order_is_held_at_its_price_or_refused_with_its_reason() {
    let mut gate = priced(FILE);
    for (fields, expected) in ROWS {
        let amount = if fields.contains("152=") { "" } else { "38=10|" };
        let id = format!("o{}", gate.seqs[0]);
        let order = format!("35=D|11={id}|1=A1|{amount}{fields}|");
        gate.says(0, &order);
        if expected.starts_with(|first: char| first.is_ascii_digit()) {
            assert_eq!(gate.took(VENUE), order, "{fields}: {}", gate.took(0));
            let free = 1_000.0 - expected.parse::<f64>().unwrap();
            assert_eq!(gate.books(1), format!("free {free:.2}, held {expected}"), "{fields}");
            gate.says(VENUE, &format!("35=8|11={id}|37=O|150=4|39=4|14=0|151=0|"));
        } else {
            assert!(gate.took(0).contains(&format!("|58={expected}")), "{fields}");
            assert_eq!(gate.took(VENUE), "", "{fields}");
        }
        assert_eq!(gate.books(1), "free 1000.00", "{fields}");
        gate.took(0);
    }
}

/// All tags of the refusal, of a session whose sales need a reference, too.
#[test]
fn an_order_without_a_reference_is_refused_until_there_is_one() {
    let mut gate = Gate::new("FIX.4.4");
    for (at, fields, price) in [(0, "40=1|54=1|55=Y|", ""), (1, "40=2|44=1|54=2|55=Y|", "44=1|")] {
        let side = if at == 0 { 1 } else { 2 };
        let order = |id| format!("35=D|11={id}|1=A1|38=10|{fields}");
        let [first, second] = [["a", "b"], ["c", "d"]][at];
        gate.says(at, &order(first));
        let refused = format!(
            "35=8|6=0|11={first}|14=0|37=NONE|38=10|39=8|{price}54={side}|55=Y|58=no reference price|103=99|150=8|151=0|"
        );
        assert_eq!((gate.took(at), gate.books(1)), (refused, "free 1000.00".into()));
        set(&mut gate, FILE);
        gate.says(at, &order(second));
        assert_eq!(gate.books(1), "free 895.00, held 105.00");
        gate.says(VENUE, &format!("35=8|11={second}|37=O|150=4|39=4|14=0|151=0|"));
        set(
            &mut gate,
            r#"{"symbol":"OTHER","price":"1"}
"#,
        );
        gate.took(at);
    }
}

/// What an order was held at it stays held at: prices move, its venue says less, and the process is killed.
#[test]
fn an_open_order_keeps_its_price_and_a_replace_takes_that_of_its_time() {
    let market = |kind, id, quantity| {
        let replaced = if kind == "G" { "41=a|" } else { "" };
        format!("35={kind}|11={id}|{replaced}1=A1|38={quantity}|40=1|54=1|55=Y|")
    };
    let cost = |price| format!("{{\"symbol\":\"Y\",\"price\":\"{price}\"}}\n");
    let mut gate = priced(FILE);
    gate.says(0, &market("D", "a", 10));
    set(&mut gate, &cost("20"));
    gate.says(VENUE, "35=8|11=a|37=O|150=D|39=0|38=10|44=0|14=0|151=10|");
    assert_eq!(gate.books(1), "free 895.00, held 105.00", "as it was opened");
    // Granted at 20, sent when the price is 50: it is held as it was granted.
    gate.is_slow = true;
    gate.says(0, &market("G", "b", 10));
    set(&mut gate, &cost("50"));
    gate.is_slow = false;
    gate.turn();
    assert_eq!(gate.books(1), "free 790.00, held 210.00", "the worst of both versions");
    let mut gate = gate.after_a_kill("FIX.4.4");
    assert_eq!(gate.books(1), "free 790.00, held 210.00");
    set(&mut gate, &cost("1"));
    gate.says(VENUE, "35=8|11=b|41=a|37=O|150=5|39=0|38=10|44=0|40=1|14=0|151=10|");
    assert_eq!(gate.books(1), "free 790.00, held 210.00", "as the replace was granted");
    gate.says(VENUE, "35=8|11=b|37=O|17=1|150=F|39=1|32=4|31=18|38=10|14=4|6=18|151=6|");
    assert_eq!(gate.books(1), "free 802.00, held 126.00, settled 72.00");
    gate.says(VENUE, "35=8|11=b|37=O|17=2|150=F|39=2|32=6|31=40|38=10|14=10|6=31.2|151=0|");
    assert_eq!(gate.books(1), "free 688.00, settled 210.00, over_settled 102.00");
    // A sale whose limit its venue repeats.
    set(&mut gate, FILE);
    gate.says(0, "35=D|11=s|1=A1|38=10|40=2|44=1|54=2|55=Y|");
    gate.says(0, "35=G|11=t|41=s|38=20|40=2|44=1|54=2|55=Y|");
    gate.says(VENUE, "35=8|11=t|41=s|37=P|150=5|39=0|38=20|44=1|14=0|151=20|");
    assert!(gate.books(1).contains("held 210.00"), "{}", gate.books(1));
    // An amount of money, of which a part is executed.
    gate.says(VENUE, "35=8|11=t|37=P|150=4|39=4|14=0|151=0|");
    gate.says(0, "35=D|11=m|1=A1|152=100|40=1|54=1|55=Y|");
    gate.says(VENUE, "35=8|11=m|37=Q|17=3|150=F|39=1|32=3|31=11|14=3|6=11|151=6|");
    gate.says(VENUE, "35=8|11=m|37=Q|150=D|39=1|38=9|14=3|6=11|151=6|");
    assert!(gate.books(1).contains("held 67.00, settled 243.00"), "{}", gate.books(1));
    gate.says(VENUE, "35=8|11=m|37=Q|150=4|39=4|14=3|6=11|151=0|");
    assert!(!gate.books(1).contains("held"));
}

/// The last execution of a symbol counts where the file says nothing: for an hour, in its currency, until it is taken back, and not after a start.
#[test]
fn the_last_execution_is_a_reference_for_a_while() {
    let fill =
        |id, rest: &str| format!("35=8|11=a|37=O|17={id}|39=1|38=90|14=1|6=8|151=89|55=N|{rest}");
    let now = "60=20261123-10:15:30.000|";
    let good = format!("150=F|32=1|31=8|{now}");
    let bust = format!("150=H|19=1|32=1|31=8|{now}");
    for (reports, expected) in [
        (vec![good.clone()], "held 84.00"),
        (vec![format!("{good}15=USD|")], "held 84.00"),
        (vec![format!("{good}15=EUR|")], "none"),
        (vec!["150=F|32=1|31=8|60=20261123-09:00:00.000|".into()], "none"),
        (vec![good.clone(), "150=F|32=1|31=2|60=20261123-10:00:00.000|".into()], "held 84.00"),
        (vec![good.clone(), bust], "none"),
        (vec![format!("150=F|32=1|31=0|{now}")], "none"),
        (vec![format!("150=F|32=0|31=8|{now}")], "none"),
        (vec![format!("150=I|32=1|31=8|{now}")], "none"),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, "35=D|11=a|1=A2|38=90|40=2|44=8|54=1|55=N|");
        for (at, report) in reports.iter().enumerate() {
            gate.says(VENUE, &fill(at + 1, report));
        }
        let asks = |gate: &mut Gate, id: &str| {
            gate.took(0);
            gate.says(0, &format!("35=D|11={id}|1=A1|38=10|40=1|54=1|55=N|"));
            match gate.took(0).contains("|58=no reference price|103=99|") {
                true => "none".into(),
                false => gate.books(1).split_once(", ").unwrap().1.to_owned(),
            }
        };
        assert_eq!(asks(&mut gate, "b"), expected, "{reports:?}");
        let mut gate = gate.after_a_kill("FIX.4.4");
        assert_eq!(asks(&mut gate, "c"), "none", "{reports:?}");
    }
}
