//! Orders as the book of a venue knows them.

use std::path::Path;

use door_fix::{Checks, FixSessions, Limits, Route, SessionSpec, VenueSpec};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS};

const VENUE: usize = 1;

fn open(
    root: &Path,
    version: &'static str,
    seqs: [u64; 2],
) -> (Desk<FileStores<NumbersFile>>, [usize; 2]) {
    let mut client = SessionSpec::new(version, "GATE", "A");
    client.limits = Some(Limits::None);
    (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), Checks::Off);
    "C-".clone_into(&mut client.cl_ord_id_prefix);
    let venue = VenueSpec::new(version, "GATE", "VENUE");
    let config = FixSessions::new(vec![client.clone()], vec![venue.clone()]).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    let mut desk = Desk::passing(version, vec![client], vec![venue], stores, ());
    let line = desk.connect();
    desk.gets(line, &format!("35=A|34={}|49=A|98=0|108=30|", seqs[0]));
    let venue = desk.dial_to(VENUE).0;
    desk.gets(venue, &format!("35=A|34={}|49=VENUE|98=0|108=30|", seqs[1]));
    (desk, [line, venue])
}

/// All orders: ClOrdID, OrderID, quantity @ price, CumQty, LeavesQty, phase.
fn shown(desk: &Desk<FileStores<NumbersFile>>) -> String {
    let mut orders: Vec<String> = Vec::new();
    let mut from = Some(0);
    while let Some(place) = from {
        let (page, next) = desk.door.orders(place, 1);
        from = next;
        orders.extend(page.into_iter().map(|one| {
            assert_eq!((&*one.session, &*one.venue), ("A", "VENUE"));
            let standing = one.standing;
            let number =
                |number: Option<fix::Decimal>| number.map_or("-".into(), |n| n.to_string());
            let size = match standing.size {
                Some(gate_orders::Size::Quantity { quantity, price }) => {
                    format!("{quantity}@{price}")
                }
                Some(gate_orders::Size::Cash(money)) => format!("cash {money}"),
                None => "?".to_owned(),
            };
            let [done, open] = [standing.executed, standing.open].map(number);
            let waits = if one.is_replacing { " replacing" } else { "" };
            format!(
                "{} {} {size} {done} {open} {:?}{waits}",
                one.cl_ord_id, one.order_id, one.phase
            )
        }));
    }
    orders.sort();
    orders.join("; ")
}

/// What is said, by A or by the venue (V), and the orders then.
fn play(name: &str, version: &'static str, steps: &[(&str, &str)]) {
    let root = tempfile::tempdir().unwrap();
    let mut seqs = [1, 1];
    let (mut desk, mut lines) = open(root.path(), version, seqs);
    for (at, (says, expected)) in steps.iter().enumerate() {
        let (who, text) = says.split_once(' ').unwrap();
        let who = usize::from(who == "V");
        seqs.iter_mut().for_each(|seq| *seq += u64::from(at == 0));
        let (kind, rest) = text.split_once('|').unwrap();
        let sender = ["A", "VENUE"][who];
        desk.gets(lines[who], &format!("{kind}|34={}|49={sender}|{rest}|", seqs[who]));
        seqs[who] += 1;
        desk.ready();
        assert_eq!(shown(&desk), *expected, "{name}, step {at}: {says}");
        // Killed after each step: it is as it was.
        drop(desk);
        (desk, lines) = open(root.path(), version, seqs);
        seqs.iter_mut().for_each(|seq| *seq += 1);
        assert_eq!(shown(&desk), *expected, "{name}, after step {at}: {says}");
    }
}

const D: &str = "A 35=D|11=a|38=100|44=10|54=1|55=X";

#[test]
#[rustfmt::skip]
fn an_order_is_known_as_its_client_and_its_venue_say() {
    play("filled, some reports twice, a bust the next day", "FIX.4.4", &[
        (D, "a  100@10 0 100 Open"),
        ("V 35=8|11=C-a|37=O1|150=0|39=0|14=0", "a O1 100@10 0 100 Open"),
        ("V 35=8|11=C-a|37=O1|150=F|39=1|17=e1|32=40|31=9|14=40|60=20261123-10:00:00", "a O1 100@10 40 60 Open"),
        ("V 35=8|11=C-a|37=O1|150=F|39=1|17=e1|32=40|31=9|14=40|60=20261123-10:00:00|97=Y", "a O1 100@10 40 60 Open"),
        ("V 35=8|11=C-a|150=F|39=1|17=e1|32=10|31=9|60=20261124-10:00:00", "a O1 100@10 50 50 Open"),
        ("V 35=8|11=C-a|150=G|39=1|17=e2|19=e1|32=20|31=9|60=20261124-11:00:00", "a O1 100@10 60 40 Open"),
        ("V 35=8|11=C-a|150=F|39=2|17=e3|32=40|31=9|60=20261124-12:00:00", "a O1 100@10 100 0 Closed"),
        ("V 35=8|11=C-a|150=H|39=2|17=e4|19=e3|151=0|60=20261125-12:00:00", "a O1 100@10 60 0 Closed"),
        ("V 35=8|11=C-a|150=H|39=1|17=e5|19=e1|151=70|60=20261125-12:00:00", "a O1 110@10 40 70 Open"),
    ]);
    play("replaces and cancels", "FIX.4.4", &[
        (D, "a  100@10 0 100 Open"),
        ("A 35=G|11=b|41=a|38=120|44=11", "a  100@10 0 100 Open replacing"),
        ("A 35=G|11=c|41=b|38=90|44=12", "a  100@10 0 100 Open replacing"),
        ("V 35=8|11=C-b|41=C-a|150=5|39=0|38=120|44=11", "b  120@11 0 120 Open replacing"),
        ("V 35=9|11=C-c|41=C-b|39=0|434=2|102=0", "b  120@11 0 120 Open"),
        ("V 35=8|11=C-b|41=C-a|150=5|39=0|38=120|44=11", "b  120@11 0 120 Open"),
        ("A 35=F|11=d|41=b", "b  120@11 0 120 Open"),
        ("V 35=8|11=C-a|150=F|39=1|17=e1|32=5|31=10", "b  120@11 5 115 Open"),
        ("V 35=8|11=C-d|41=C-b|150=4|39=4|14=5|151=0", "b  120@11 5 0 Closed"),
        (D, "a  100@10 0 100 Open; b  120@11 5 0 Closed"),
        ("V 35=3|45=15|58=no|372=D", "a  100@10 0 0 Closed; b  120@11 5 0 Closed"),
    ]);
    play("filled while a replace waits; a replace that is rejected by its number", "FIX.4.4", &[
        (D, "a  100@10 0 100 Open"),
        ("A 35=G|11=b|41=a|38=150|44=10", "a  100@10 0 100 Open replacing"),
        ("V 35=8|11=C-a|150=F|39=2|17=e1|32=100|31=10|14=100", "a  100@10 100 0 Filled replacing"),
        ("V 35=j|45=4|372=G|380=0", "a  100@10 100 0 Closed"),
    ]);
    play("without a price, a negative one, cash, done for the day, restated, missed", "FIX.4.4", &[
        ("A 35=D|11=m|38=5|40=1|54=2|55=X", "m  5@0 0 5 Open"),
        ("V 35=8|11=C-m|150=3|39=3|14=0", "m  5@0 0 0 Closed"),
        ("A 35=D|11=g|38=5|44=-1|59=1|54=2|55=X", "g  5@0 0 5 Open; m  5@0 0 0 Closed"),
        ("V 35=8|11=C-g|150=3|39=3|14=0", "g  5@0 0 5 Open; m  5@0 0 0 Closed"),
        ("V 35=8|11=C-g|150=D|39=0|38=7", "g  7@0 0 7 Open; m  5@0 0 0 Closed"),
        ("V 35=8|11=C-g|150=I|39=1|14=3|6=2", "g  7@0 3 4 Open; m  5@0 0 0 Closed"),
        ("A 35=D|11=n|152=500|54=1|55=X", "g  7@0 3 4 Open; m  5@0 0 0 Closed; n  cash 500 0 - Open"),
        ("V 35=8|11=C-n|150=8|39=8", "g  7@0 3 4 Open; m  5@0 0 0 Closed; n  cash 500 0 - Closed"),
    ]);
    play("FIX 4.2, and a list", "FIX.4.2", &[
        (D, "a  100@10 0 100 Open"),
        ("V 35=8|11=C-a|20=0|150=1|39=1|17=1|32=60|31=10|14=60|151=40", "a  100@10 60 40 Open"),
        ("V 35=8|11=C-a|20=1|150=1|39=0|17=2|19=1|32=60|31=10|14=0|151=100", "a  100@10 0 100 Open"),
        ("V 35=8|11=C-a|20=3|150=0|39=0|14=0|32=0", "a  100@10 0 100 Open"),
        ("A 35=E|66=l|73=1|11=x|38=5", "a  100@10 0 100 Open"),
        ("V 35=8|11=C-x|20=0|150=2|39=2|17=3|32=5|31=10", "a  100@10 0 100 Open; x  ? 5 - Closed"),
    ]);
}
