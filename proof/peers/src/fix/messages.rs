//! Messages as order flow has them. Each one differs from the others, because a message that repeats lets the processor foretell
//! every branch.

use probe::compare::Random;

/// Messages of a kind.
const MESSAGES: usize = 512;
const SEED: u64 = 0xf1f1_0223;

/// Messages of one kind.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) messages: Vec<Vec<u8>>,
}

impl Kind {
    /// Orders (D) of 22 fields, and execution reports (8) of 39 with a group.
    pub(super) fn both() -> [Kind; 2] {
        let mut random = Random::new(SEED);
        let mut made = |body: fn(&mut Random) -> String| -> Vec<Vec<u8>> {
            (0..MESSAGES).map(|_| framed(&body(&mut random))).collect()
        };
        let (orders, reports) = (made(any_order), made(report));
        [
            Kind { name: "NewOrderSingle", messages: orders },
            Kind { name: "ExecutionReport", messages: reports },
        ]
    }

    /// Bytes of a message on average.
    pub(super) fn bytes(&self) -> usize {
        self.messages.iter().map(Vec::len).sum::<usize>() / self.messages.len().max(1)
    }

    /// Fields of a message.
    pub(super) fn fields(&self) -> usize {
        self.messages.first().map_or(0, |one| one.iter().filter(|byte| **byte == fix::SOH).count())
    }
}

/// A whole FIX 4.4 message of a body with bars for its delimiters.
pub(super) fn framed(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
    let sum = fix::sum(&message);
    message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    message
}

fn any_order(random: &mut Random) -> String {
    let (seq, id) = (random.below(1_000_000) as u64, random.below(100_000_000) as u64);
    order(random, seq, id, 100_000, "20261123-10:15:30")
}

/// The body of an order with this number and ClOrdID, of at most so many, at this second.
pub(super) fn order(
    random: &mut Random,
    seq: u64,
    id: u64,
    quantity_max: usize,
    second: &str,
) -> String {
    let mut below = |limit| random.below(limit);
    format!(
        "35=D|49=CLIENT1|56=GATE|34={seq}|52={second}.{:03}|50=TRADER7|11=ORD-{id}|1=ACCT-{}|55=MSFT|207=XNAS|54={}|\
         60={second}.{:03}|38={}|40=2|44={}.{}|59=0|15=USD|21=1|58=desk eleven|",
        below(1_000),
        below(10_000),
        1 + below(2),
        below(1_000),
        1 + below(quantity_max),
        1 + below(5_000),
        below(10_000),
    )
}

fn report(random: &mut Random) -> String {
    let mut below = |limit| random.below(limit);
    let (id, quantity) = (below(100_000_000), 1 + below(100_000));
    format!(
        "35=8|49=GATE|56=CLIENT1|34={}|52=20261123-10:15:30.{:03}|57=TRADER7|37=EX-{id}|11=ORD-{id}|17=E{id}|150=F|39=1|\
         1=ACCT-{}|453=2|448=FIRM{}|447=D|452=1|448=CLEAR{}|447=D|452=4|55=MSFT|207=XNAS|54={}|38={quantity}|40=2|44={}.{}|\
         59=0|15=USD|32={}|31={}.{}|151={}|14={}|6={}.{}|60=20261123-10:15:30.{:03}|528=A|58=partial fill|851=2|",
        below(1_000_000),
        below(1_000),
        below(10_000),
        below(100),
        below(100),
        1 + below(2),
        below(5_000),
        below(10_000),
        below(1_000),
        below(5_000),
        below(10_000),
        below(10_000),
        below(10_000),
        below(5_000),
        below(10_000),
        below(1_000),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_the_length_that_the_bars_speak_of() {
        let [orders, reports] = Kind::both();
        assert!((218..=228).contains(&orders.bytes()), "{}", orders.bytes());
        assert_eq!((orders.fields(), reports.fields()), (22, 39));
        for message in orders.messages.iter().chain(&reports.messages) {
            assert!(matches!(fix::frame(message, 65_536), fix::Framing::Whole(_)));
        }
    }
}
