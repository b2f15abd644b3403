//! The public acceptance behaviour of a FIX acceptor, as tables: what comes, what is answered, what becomes of the connection.
//!
//! A line of a table is `I` and a message of the client, `E` and all that the door answers to it (`E` alone: nothing), `W` and milliseconds
//! that pass (before an `E`), `D` for a connection that the door has closed, `C` for a new connection, `B` and bytes as they are. `<time>`
//! is the present time, `<+n>` and `<-n>` one so many seconds away. Without `C` at the start the client is connected and logged on with
//! MsgSeqNum 1 of both sides.

use crate::desk::Desk;

const VERSIONS: [&str; 3] = ["FIX.4.2", "FIX.4.4", "FIXT.1.1"];

fn play(begin_string: &'static str, name: &str, table: &str) {
    let mut desk = Desk::new(begin_string);
    let (mut at, mut answer) = (usize::MAX, None::<String>);
    let version = if begin_string == "FIXT.1.1" { "1137=9|" } else { "" };
    let mut lines: Vec<&str> =
        table.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !lines[0].starts_with('C') {
        lines.splice(0..0, ["C", "I35=A|34=1|98=0|108=30|<v>", "E35=A|34=1|98=0|108=30|<v>"]);
    }
    for (number, line) in lines.iter().enumerate() {
        let context = format!("{name} ({begin_string}) line {number}: {line}");
        let (kind, text) = line.split_at(1);
        if kind != "E" && answer.as_ref().is_some_and(|answer| !answer.is_empty()) {
            panic!("{context}: before it came {answer:?}");
        }
        let text = text.replace("<v>", version);
        let text = times(&desk, &text);
        match kind {
            "C" => {
                if at != usize::MAX && desk.is_open(at) {
                    desk.drop_line(at);
                }
                at = desk.connect();
            }
            "I" => answer = Some(desk.gets(at, &text)),
            "B" => answer = Some(desk.gets_bytes(at, text.replace('|', "\x01").as_bytes())),
            "W" => answer = Some(desk.waits(at, text.parse().unwrap())),
            "E" => assert_eq!(answer.take().unwrap_or_default(), text, "{context}"),
            "D" => assert!(!desk.is_open(at), "{context}"),
            _ => panic!("{context}"),
        }
        if kind == "I" && number + 1 == lines.len() {
            panic!("{context}: say what is answered");
        }
    }
    assert_eq!(desk.is_open(at), lines.last() != Some(&"D"), "{name}: at the end");
}

fn times(desk: &Desk<Vec<fix_session::MemoryStore>>, text: &str) -> String {
    let mut text = text.replace("<time>", &desk.time(0));
    while let Some(start) = text.find(['<']) {
        let end = start + text[start..].find('>').unwrap();
        let seconds: i64 = text[start + 1..end].parse().unwrap();
        text.replace_range(start..=end, &desk.time(seconds));
    }
    text
}

/// Plays rows for all versions.
fn play_all(rows: &[(&str, &str)]) {
    for begin_string in VERSIONS {
        for (name, table) in rows {
            play(begin_string, name, table);
        }
    }
}

const LOGON: &[(&str, &str)] = &[
    (
        "L1 a Logon is answered with its interval",
        "C
            I35=A|34=1|98=0|108=7|<v>
            E35=A|34=1|98=0|108=7|<v>",
    ),
    (
        "L2 a Logon that is too high",
        "C
            I35=A|34=5|98=0|108=30|<v>
            E35=A|34=1|98=0|108=30|<v>35=2|34=2|7=1|16=0|",
    ),
    (
        "L3 a Logon that is too low",
        "I35=1|34=2|112=x|
            E35=0|34=2|112=x|
            C
            I35=A|34=1|98=0|108=30|<v>
            E35=5|34=3|58=MsgSeqNum too low, expecting 3 but received 1|
            D",
    ),
    (
        "L4 first message is no Logon",
        "C
            I35=0|34=1|
            E
            D",
    ),
    (
        "L5 another SenderCompID",
        "C
            I35=A|34=1|49=OTHER|98=0|108=30|<v>
            E
            D",
    ),
    (
        "L5 another TargetCompID",
        "C
            I35=A|34=1|56=OTHER|98=0|108=30|<v>
            E
            D",
    ),
    (
        "L5 another BeginString",
        "C
            IFIX.4.0@35=A|34=1|98=0|108=30|<v>
            E
            D",
    ),
    (
        "L6 SendingTime too far away",
        "C
            I35=A|34=1|52=<-121>|98=0|108=30|<v>
            E
            D",
    ),
    (
        "L7 a garbled Logon",
        "C
            I35=A|34=1|98=0|108=30|<v>|10=000|
            E
            D",
    ),
    (
        "L10 a Logon with ResetSeqNumFlag",
        "I35=1|34=2|112=x|
            E35=0|34=2|112=x|
            C
            I35=A|34=1|98=0|108=30|141=Y|<v>
            E35=A|34=1|98=0|108=30|141=Y|<v>
            I35=1|34=2|112=y|
            E35=0|34=2|112=y|",
    ),
    (
        "L10 the same inside a session",
        "I35=A|34=1|98=0|108=30|141=Y|<v>
            E35=A|34=1|98=0|108=30|141=Y|<v>
            I35=1|34=2|112=y|
            E35=0|34=2|112=y|",
    ),
    (
        "L11 a reset to another number",
        "C
            I35=A|34=7|98=0|108=30|141=Y|<v>
            E35=5|34=1|58=MsgSeqNum of a Logon with ResetSeqNumFlag must be 1|
            D",
    ),
    (
        "L12 HeartBtInt is missing",
        "C
            I35=A|34=1|98=0|<v>
            E35=5|34=1|58=HeartBtInt is missing or invalid|
            D",
    ),
    (
        "L13 encryption",
        "C
            I35=A|34=1|98=1|108=30|<v>
            E35=5|34=1|58=Unsupported EncryptMethod|
            D",
    ),
    (
        "L19 no Logon",
        "C
            W10000
            E
            D",
    ),
];

#[test]
fn logon() {
    play_all(LOGON);
    play(
        "FIXT.1.1",
        "L8 no version of the application",
        "C
        I35=A|34=1|98=0|108=30|
        E
        D",
    );
}

const SEQUENCE_NUMBERS: &[(&str, &str)] = &[
    (
        "S1 too high, then filled",
        "I35=1|34=4|112=late|
            E35=2|34=2|7=2|16=0|
            I35=1|34=5|112=later|
            E
            I35=4|34=2|43=Y|122=<time>|36=4|123=Y|
            E35=0|34=3|112=late|35=0|34=4|112=later|",
    ),
    (
        "S2 a ResendRequest that is too high is answered first",
        "I35=2|34=9|7=1|16=0|
            E35=4|34=1|43=Y|122=<time>|36=2|123=Y|",
    ),
    (
        "S3 a Logout that is too high",
        "I35=5|34=9|
            E35=5|34=2|
            D",
    ),
    (
        "S4 too low",
        "I35=0|34=1|
            E35=5|34=2|58=MsgSeqNum too low, expecting 2 but received 1|
            D",
    ),
    (
        "S5 too low with PossDupFlag",
        "I35=0|34=1|43=Y|122=<-1>|
            E
            I35=1|34=2|112=x|
            E35=0|34=2|112=x|",
    ),
    (
        "S6 the same, sent before it was first sent",
        "I35=0|34=1|43=Y|122=<+9>|
            E35=3|34=2|45=1|58=SendingTime accuracy problem|372=0|373=10|35=5|34=3|
            I35=5|34=2|
            E
            D",
    ),
    (
        "S7 the same without OrigSendingTime",
        "I35=0|34=1|43=Y|
            E35=3|34=2|45=1|58=Required tag missing|371=122|372=0|373=1|
            I35=1|34=2|112=x|
            E35=0|34=3|112=x|",
    ),
    (
        "S8 expected, with PossDupFlag",
        "I35=1|34=2|43=Y|122=<-1>|112=x|
            E35=0|34=2|112=x|",
    ),
];

#[test]
fn sequence_numbers() {
    play_all(SEQUENCE_NUMBERS);
}

const RESENDS: &[(&str, &str)] = &[
    (
        "Q2 an open end",
        "I35=1|34=2|112=x|
            E35=0|34=2|112=x|
            I35=2|34=3|7=2|16=0|
            E35=4|34=2|43=Y|122=<time>|36=3|123=Y|",
    ),
    (
        "Q3 beyond the last",
        "I35=2|34=2|7=1|16=99|
            E35=4|34=1|43=Y|122=<time>|36=2|123=Y|",
    ),
    (
        "Q4 what was never sent",
        "I35=2|34=2|7=5|16=0|
            E
            I35=1|34=3|112=x|
            E35=0|34=2|112=x|",
    ),
    (
        "Q5 no range",
        "I35=2|34=2|7=0|16=0|
            E35=3|34=2|45=2|58=Value is incorrect (out of range) for this tag|371=7|372=2|373=5|",
    ),
    (
        "R1 a gap fill",
        "I35=4|34=2|123=Y|36=6|
            E
            I35=1|34=6|112=x|
            E35=0|34=2|112=x|",
    ),
    (
        "R2 a gap fill too high",
        "I35=4|34=4|123=Y|36=6|
            E35=2|34=2|7=2|16=0|",
    ),
    (
        "R3 a gap fill too low with PossDupFlag",
        "I35=4|34=1|43=Y|122=<-1>|36=6|123=Y|
            E
            I35=1|34=2|112=x|
            E35=0|34=2|112=x|",
    ),
    (
        "R4 a gap fill too low",
        "I35=4|34=1|123=Y|36=6|
            E35=5|34=2|58=MsgSeqNum too low, expecting 2 but received 1|
            D",
    ),
    (
        "R6 a reset whose own number does not matter",
        "I35=4|34=0|36=9|
            E
            I35=1|34=9|112=x|
            E35=0|34=2|112=x|",
    ),
    (
        "R7 a reset that leads back",
        "I35=4|34=0|123=N|36=1|
            E35=3|34=2|45=0|58=Value is incorrect (out of range) for this tag|372=4|373=5|
            I35=1|34=2|112=x|
            E35=0|34=3|112=x|",
    ),
];

#[test]
fn resends() {
    play_all(RESENDS);
}

const HEARTBEATS: &[(&str, &str)] = &[
    (
        "H1 nothing sent",
        "W30000
            E35=0|34=2|",
    ),
    (
        "H2 nothing received",
        "W36000
            E35=0|34=2|35=1|34=3|112=TEST|
            I35=0|34=2|112=TEST|
            E",
    ),
    (
        "H3 nothing for long",
        "W71999
            E35=0|34=2|35=1|34=3|112=TEST|35=0|34=4|
            W1
            E
            D",
    ),
    (
        "H4 a TestRequest",
        "I35=1|34=2|112=HELLO|
            E35=0|34=2|112=HELLO|",
    ),
    (
        "H5 a TestRequest too high waits",
        "I35=1|34=3|112=HELLO|
            E35=2|34=2|7=2|16=0|
            I35=0|34=2|43=Y|122=<time>|
            E35=0|34=3|112=HELLO|",
    ),
    (
        "H6 a TestRequest without an id",
        "I35=1|34=2|
            E35=3|34=2|45=2|58=Required tag missing|371=112|372=1|373=1|",
    ),
    (
        "no heartbeats with 0",
        "C
            I35=A|34=1|98=0|108=0|<v>
            E35=A|34=1|98=0|108=0|<v>
            W10000000
            E",
    ),
];

#[test]
fn heartbeats() {
    play_all(HEARTBEATS);
}

const HEADERS_AND_FRAMING: &[(&str, &str)] = &[
    (
        "G1 a wrong CheckSum is ignored and leaves a gap",
        "I35=1|34=2|112=x|10=256|
            E
            I35=1|34=3|112=y|
            E35=2|34=2|7=2|16=0|",
    ),
    (
        "G3 fields out of order",
        "B8=FIX.4.4|35=0|9=5|34=2|10=000|
            E
            I35=1|34=2|112=y|
            E35=0|34=2|112=y|",
    ),
    (
        "G4 another BeginString",
        "IFIX.4.0@35=0|34=2|
            E35=5|34=2|58=Incorrect BeginString|
            I35=5|34=3|
            E
            D",
    ),
    (
        "G5 another CompID",
        "I35=0|34=2|49=OTHER|
            E35=3|34=2|45=2|58=CompID problem|372=0|373=9|35=5|34=3|
            W2000
            E
            D",
    ),
    (
        "G6 SendingTime too far away",
        "I35=0|34=2|52=<-121>|
            E35=3|34=2|45=2|58=SendingTime accuracy problem|372=0|373=10|35=5|34=3|
            I35=5|34=3|
            E
            D",
    ),
    (
        "G7 no MsgSeqNum",
        "I35=0|
            E35=5|34=2|58=Received message without MsgSeqNum|
            D",
    ),
    (
        "G8 no SendingTime",
        "I35=0|34=2|-52|
            E35=3|34=2|45=2|58=Required tag missing|371=52|372=0|373=1|",
    ),
    (
        "G9 an answer finds its way back",
        "I35=1|34=2|115=DESK|128=HUB|
            E35=3|34=2|115=HUB|128=DESK|45=2|58=Required tag missing|371=112|372=1|373=1|",
    ),
    (
        "A1 an unknown type",
        "I35=*|34=2|
            E35=3|34=2|45=2|58=Invalid MsgType|372=*|373=11|",
    ),
];

#[test]
fn headers_and_framing() {
    play_all(HEADERS_AND_FRAMING);
}

const LOGOUT: &[(&str, &str)] = &[
    (
        "O1 a Logout",
        "I35=5|34=2|58=bye|
            E35=5|34=2|
            D
            C
            I35=A|34=3|98=0|108=30|<v>
            E35=A|34=3|98=0|108=30|<v>",
    ),
    (
        "O3 no Logout",
        "I35=1|34=2|112=x|
            E35=0|34=2|112=x|
            C
            I35=A|34=3|98=0|108=30|<v>
            E35=A|34=3|98=0|108=30|<v>",
    ),
];

#[test]
fn logout() {
    play_all(LOGOUT);
}

const ORDER: &str = "11=a|21=1|38=002000.00|40=1|54=1|55=IBM|60=<time>|";

/// What stands behind the session: route `echo`.
#[test]
fn echo() {
    for begin_string in VERSIONS {
        let play = |name, table: &str| play(begin_string, name, &table.replace("<order>", ORDER));
        play(
            "fields come back in ascending order, values as they were",
            "I35=D|34=2|60=<time>|55=IBM|11=a|54=1|40=1|21=1|38=002000.00|
             E35=D|34=2|<order>",
        );
        play(
            "PossResend of a ClOrdID that was seen is not answered, any other is",
            "I35=D|34=2|<order>
             E35=D|34=2|<order>
             I35=D|34=3|97=Y|<order>
             E
             I35=D|34=4|97=Y|11=b|21=1|38=1|40=1|54=1|55=IBM|60=<time>|
             E35=D|34=3|97=Y|11=b|21=1|38=1|40=1|54=1|55=IBM|60=<time>|
             I35=D|34=5|<order>
             E35=D|34=4|<order>",
        );
        play(
            "what was sent back comes again when it is asked for",
            "I35=D|34=2|<order>
             E35=D|34=2|<order>
             I35=2|34=3|7=1|16=0|
             E35=4|34=1|43=Y|122=<time>|36=2|123=Y|35=D|34=2|43=Y|122=<time>|<order>",
        );
        play(
            "an order that is too high waits for its turn",
            "I35=D|34=3|<order>
             E35=2|34=2|7=2|16=0|
             I35=4|34=2|43=Y|122=<time>|123=Y|36=3|
             E35=D|34=3|<order>",
        );
        play(
            "an order with PossDupFlag that fills a gap comes back as a new message",
            "I35=D|34=2|43=Y|122=<-1>|<order>
             E35=D|34=2|<order>",
        );
        let version = if begin_string == "FIXT.1.1" { "1137=9|" } else { "" };
        play(
            "A2 a type that is not taken",
            &format!(
                "I35=F|34=2|11=b|41=a|54=1|55=IBM|60=<time>|
                 E35=j|34=2|45=2|58=Unsupported Message Type|372=F|379=b|380=3|{version}"
            ),
        );
    }
}

#[test]
fn groups_stay_behind_their_counts() {
    let order = "11=a|21=1|38=1|40=1|54=1|55=IBM|60=<time>|";
    let groups = "78=2|79=b|80=7|79=a|80=9|386=1|336=S|";
    let table = format!(
        "I35=D|34=2|{groups}{order}
         E35=D|34=2|11=a|21=1|38=1|40=1|54=1|55=IBM|60=<time>|{groups}"
    );
    play("FIX.4.4", "groups", &table);
}

#[test]
fn data_stays_behind_its_length() {
    let table = "I35=D|34=2|354=3|355=a|b|60=<time>|11=a|21=1|38=1|40=1|54=1|55=IBM|
         E35=D|34=2|11=a|21=1|38=1|40=1|54=1|55=IBM|60=<time>|354=3|355=a|b|";
    play("FIX.4.4", "data", table);
}
