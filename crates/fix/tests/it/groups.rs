//! Fields of the message, and those of its groups.

use crate::made::{made, whole};
use fix::{Dictionary, Index, Message};
use proptest::prelude::*;

const HEAD: &str = "49=A|34=2|52=20261123-10:15:30|56=B|";

/// A cross order: quantity and side of each side are 38 and 54 too. Its own quantity would stand behind.
const CROSS: &str = r#"<fix type="FIX" major="4" minor="4"> <header><field name="MsgType" required="Y"/></header>
<messages><message name="Cross" msgtype="s" msgcat="app"> <field name="CrossID" required="Y"/>
  <group name="NoSides" required="Y"><field name="Side" required="Y"/><field name="ClOrdID" required="Y"/>
    <group name="NoPartyIDs" required="N"><field name="PartyID" required="Y"/><field name="PartyRole" required="N"/></group>
    <field name="OrderQty" required="N"/></group>
  <field name="Symbol" required="Y"/><field name="OrderQty" required="N"/><field name="Price" required="N"/></message></messages>
<trailer><field name="CheckSum" required="Y"/></trailer>
<fields><field number="35" name="MsgType" type="STRING"/><field number="548" name="CrossID" type="STRING"/>
  <field number="552" name="NoSides" type="NUMINGROUP"/><field number="54" name="Side" type="CHAR"/>
  <field number="11" name="ClOrdID" type="STRING"/><field number="38" name="OrderQty" type="QTY"/>
  <field number="453" name="NoPartyIDs" type="NUMINGROUP"/><field number="448" name="PartyID" type="STRING"/>
  <field number="452" name="PartyRole" type="INT"/><field number="55" name="Symbol" type="STRING"/>
  <field number="44" name="Price" type="PRICE"/><field number="10" name="CheckSum" type="STRING"/></fields></fix>"#;

fn with<T>(msg_type: &str, body: &str, read: impl FnOnce(&Message<'_>) -> T) -> T {
    let bytes = made("FIX.4.4", &format!("35={msg_type}|{HEAD}{body}"));
    let mut index = Index::new(512);
    let message = index.read(whole(&bytes)).unwrap();
    read(&message)
}

/// The fields outside groups behind the header, as text.
fn outside(dictionary: &Dictionary, msg_type: &str, body: &str) -> String {
    with(msg_type, body, |message| {
        let grouped = dictionary.grouped(message).unwrap();
        let places = grouped.outside_groups().filter(|at| *at >= 7 && *at < message.len() - 1);
        let field =
            |at: usize| String::from_utf8(message.stretch(at, at + 1).unwrap().to_vec()).unwrap();
        places.map(field).collect::<String>().replace('\x01', "|")
    })
}

#[test]
fn a_side_is_not_the_order() {
    let cross = Dictionary::from_xml(CROSS).unwrap();
    let sides = "552=2|54=1|11=a|453=1|448=F|452=3|38=100|54=2|11=b|38=200|";
    with("s", &format!("548=c|{sides}55=X|38=300|44=5|"), |message| {
        let grouped = cross.grouped(message).unwrap();
        assert_eq!(message.value(38), Some(&b"100"[..]), "the plain lookup knows no groups");
        assert_eq!(grouped.value(38), Some(&b"300"[..]));
        assert_eq!(grouped.value(54), None);
        assert_eq!(grouped.value(44), Some(&b"5"[..]));
        let mut entries = grouped.entries(552).unwrap();
        let all = entries.clone();
        let (one, two) = (entries.next().unwrap(), entries.next().unwrap());
        assert_eq!(entries.next(), None);
        assert_eq!(all.value(one.clone(), 38), Some(&b"100"[..]));
        assert_eq!(all.value(two.clone(), 38), Some(&b"200"[..]));
        assert_eq!(all.value(one.clone(), 448), None, "of a group within the entry");
        let inner = all.inner(one, 453).unwrap();
        let party = inner.clone().next().unwrap();
        assert_eq!(inner.value(party, 448), Some(&b"F"[..]));
        assert!(all.inner(two, 453).is_none());
    });
    assert_eq!(outside(&cross, "s", &format!("548=c|{sides}55=X|")), "548=c|552=2|55=X|");
}

/// Groups of messages that a venue made with mistakes, or with fields of its own.
#[test]
fn groups_end_where_they_end_whatever_the_count_says() {
    let fix44 = Dictionary::fix44();
    for (body, wanted) in [
        ("11=a|453=1|448=A|447=D|448=B|55=X|", "11=a|453=1|55=X|"),
        ("11=a|453=9|448=A|447=D|55=X|", "11=a|453=9|55=X|"),
        ("11=a|453=0|55=X|", "11=a|453=0|55=X|"),
        ("11=a|453=1|55=X|448=A|", "11=a|453=1|55=X|448=A|"),
        ("11=a|453=1|447=D|448=A|55=X|", "11=a|453=1|447=D|448=A|55=X|"),
        ("11=a|453=1|448=A|9999=u|447=D|55=X|9998=v|", "11=a|453=1|55=X|9998=v|"),
        ("453=1|448=A|802=2|523=s|803=1|523=t|452=3|55=X|", "453=1|55=X|"),
        ("78=2|79=p|80=1|79=q|539=1|524=n|80=2|38=5|", "78=2|38=5|"),
        ("453=1|448=A|", "453=1|"),
        ("453=1|", "453=1|"),
        ("453=1|448=A|93=1|89=x|", "453=1|93=1|89=x|"),
    ] {
        assert_eq!(outside(&fix44, "D", body), wanted, "{body}");
    }
    with("0", "627=1|628=h|112=x|", |message| {
        assert_eq!(fix44.grouped(message).unwrap().value(628), None, "a group of the header");
    });
    with("B", "148=x|", |message| assert!(fix44.grouped(message).is_none()));
}

/// A field that the entry has already belongs to the message, if that may have it.
#[test]
fn a_repeated_field_ends_the_last_entry() {
    let cross = Dictionary::from_xml(CROSS).unwrap();
    with("s", "548=c|552=1|54=1|11=a|38=100|38=300|55=X|", |message| {
        assert_eq!(cross.grouped(message).unwrap().value(38), Some(&b"300"[..]));
    });
}

proptest! {
    /// Every field is outside groups or in one entry of one group, and the walk ends.
    #[test]
    fn any_fields_are_walked(tags in proptest::collection::vec(prop_oneof![
        Just(453), Just(448), Just(447), Just(802), Just(523), Just(78), Just(79), Just(539), Just(524), Just(55), Just(9999), 1..900_u32], 0..60)) {
        // Length fields would swallow others.
        let body: String = tags.iter().filter(|tag| ![90, 93, 95, 212].contains(*tag)).map(|tag| format!("{tag}=1|")).collect();
        let fix44 = Dictionary::fix44();
        with("D", &body, |message| {
            let grouped = fix44.grouped(message).unwrap();
            let places: Vec<usize> = grouped.outside_groups().collect();
            assert!(places.is_sorted_by(|one, two| one < two));
            assert!(places.len() <= message.len() && places[0] == 0);
            assert_eq!(message.tag_at(*places.last().unwrap()), Some(10));
            for tag in [453, 78] {
                let Some(entries) = grouped.entries(tag) else { continue };
                let mut end = 0;
                for entry in entries {
                    assert!(entry.start < entry.end && entry.start >= end && entry.end < message.len());
                    assert!(!places.iter().any(|place| entry.contains(place)));
                    end = entry.end;
                }
            }
        });
    }
}
