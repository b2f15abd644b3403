//! Dictionaries of users, in QuickFIX's XML format.

use crate::made::{made, whole};
use fix::{Dictionary, DictionaryError, FieldType, Index, Validation};

/// A venue's dialect: one message, a component with a group, a user field and a data field of its own.
const VENUE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- a dialect -->
<fix type="FIX" major="4" minor="4" servicepack="0">
 <header>
  <field name="BeginString" required="Y"/> <field name="BodyLength" required="Y"/> <field name="MsgType" required="Y"/>
  <field name="SenderCompID" required="Y"/> <field name="TargetCompID" required="Y"/> <field name="MsgSeqNum" required="Y"/>
  <field name="SendingTime" required="Y"/>
 </header>
 <messages>
  <message name="Quote" msgtype="S" msgcat="app">
   <field name="QuoteID" required="Y"/> <field name="VenueFlag" required="N"/>
   <component name="Parties" required="N"/>
   <field name="BlobLen" required="N"/> <field name="Blob" required="N"/>
  </message>
 </messages>
 <trailer> <field name="CheckSum" required="Y"/> </trailer>
 <components>
  <component name="Parties">
   <group name="NoPartyIDs" required="N">
    <field name="PartyID" required="Y"/> <component name="Role" required="Y"/>
   </group>
  </component>
  <component name="Role"> <field name="PartyRole" required="Y"/> </component>
 </components>
 <fields>
  <field number="8" name="BeginString" type="STRING"/> <field number="9" name="BodyLength" type="LENGTH"/>
  <field number="35" name="MsgType" type="STRING"/> <field number="49" name="SenderCompID" type="STRING"/>
  <field number="56" name="TargetCompID" type="STRING"/> <field number="34" name="MsgSeqNum" type="SEQNUM"/>
  <field number="52" name="SendingTime" type="UTCTIMESTAMP"/> <field number="10" name="CheckSum" type="STRING"/>
  <field number="117" name="QuoteID" type="STRING"/>
  <field number="5001" name="VenueFlag" type="CHAR"> <value enum="A" description="ON"/> <value enum="B" description="OFF"/> </field>
  <field number="5010" name="BlobLen" type="LENGTH"/> <field number="5011" name="Blob" type="DATA"/>
  <field number="453" name="NoPartyIDs" type="NUMINGROUP"/> <field number="448" name="PartyID" type="STRING"/>
  <field number="452" name="PartyRole" type="INT"/>
 </fields>
</fix>"#;

fn judged(dictionary: &Dictionary, body: &str) -> Option<(u8, Option<i64>)> {
    let bytes = made("FIX.4.4", &format!("35=S|49=A|56=B|34=2|52=20261123-10:15:30|{body}"));
    let mut index = Index::with(128, fix::Simd::best(), dictionary.data_fields());
    let message = index.read(whole(&bytes)).unwrap();
    let rejection = Validation::Full(dictionary).check(&message).err();
    rejection.map(|rejection| (rejection.reason.code(), rejection.tag))
}

#[test]
fn a_dialect_is_read_and_held() {
    let venue = Dictionary::from_xml(VENUE).unwrap();
    assert!(venue.has_message(b"S") && !venue.has_message(b"D"));
    assert_eq!(venue.messages_len(), 1);
    assert_eq!(venue.field_type(5001), Some(FieldType::Char));
    assert_eq!(judged(&venue, "117=q|5001=A|453=1|448=F|452=3|"), None);
    assert_eq!(judged(&venue, "5001=A|"), Some((1, Some(117))));
    assert_eq!(judged(&venue, "117=q|5001=C|"), Some((5, Some(5001))));
    assert_eq!(judged(&venue, "117=q|453=1|448=F|"), Some((1, Some(452))), "required of the entry");
    assert_eq!(judged(&venue, "117=q|453=1|452=3|448=F|"), Some((15, Some(452))));
    assert_eq!(judged(&venue, "117=q|5010=3|5011=a|b|"), None);
    assert_eq!(judged(&venue, "117=q|58=x|"), Some((0, Some(58))));
}

#[test]
fn a_dialect_adds_to_a_version() {
    let both = Dictionary::fix44().joined(Dictionary::from_xml(VENUE).unwrap());
    assert!(both.has_message(b"S") && both.has_message(b"D"));
    assert_eq!(judged(&both, "117=q|5001=A|"), None);
    assert_eq!(judged(&both, "117=q|5001=C|"), Some((5, Some(5001))));
    assert_eq!(judged(&both, "117=q|58=x|"), Some((2, Some(58))));
    assert!(both.has_field(956) && !both.has_field(957) && both.has_field(5001));
}

/// What is wrong is told with its line, and nothing is half taken.
#[test]
fn broken_dictionaries_are_refused_with_their_line() {
    let line_of = |text: &str| match Dictionary::from_xml(text).unwrap_err() {
        DictionaryError::Syntax { line, .. } | DictionaryError::Content { line, .. } => line,
    };
    for (old, new, line) in [
        ("<field name=\"QuoteID\" required=\"Y\"/>", "<field name=\"Nothing\"/>", 11),
        ("<component name=\"Parties\" required=\"N\"/>", "<component name=\"Nobody\"/>", 12),
        (
            "<field name=\"PartyID\" required=\"Y\"/> <component name=\"Role\" required=\"Y\"/>",
            "",
            19,
        ),
        ("<component name=\"Role\" required=\"Y\"/>", "<component name=\"Parties\"/>", 18),
        ("number=\"117\"", "number=\"0\"", 30),
        ("number=\"117\"", "number=\"70000\"", 30),
        ("number=\"117\"", "number=\"x\"", 30),
        ("number=\"117\" name=\"QuoteID\"", "number=\"117\" name=\"Blob\"", 32),
        ("msgtype=\"S\"", "msgtype=\"\"", 10),
        ("<field number=\"117\"", "<what number=\"117\"", 30),
        ("</fix>", "", 1),
        ("<fix ", "<fox ", 36),
    ] {
        let broken = VENUE.replacen(old, new, 1);
        assert_ne!(broken, VENUE, "{old}");
        assert_eq!(line_of(&broken), line, "{old} -> {new}");
    }
    assert_eq!(line_of("<fix/>"), 1);
    assert!(Dictionary::from_xml("").is_err());
    assert!(
        Dictionary::from_xml("<!DOCTYPE fix [<!ENTITY a \"b\">]><fix/>").is_err(),
        "no entities"
    );
    let error = Dictionary::from_xml(&VENUE.replace("number=\"117\"", "number=\"0\"")).unwrap_err();
    assert_eq!(error.to_string(), "line 30: <field QuoteID>: number is a tag from 1 to 65535");
}

/// Components that mention each other twice would be read 2^n times.
#[test]
fn components_do_not_multiply() {
    let mut components = String::new();
    for at in 0..20 {
        let next = at + 1;
        components.push_str(&format!(
            "<component name=\"C{at}\"><component name=\"C{next}\"/><component name=\"C{next}\"/></component>"
        ));
    }
    let bomb = VENUE
        .replace("<components>", &format!("<components>{components}<component name=\"C20\"/>"))
        .replace("<component name=\"Parties\" required=\"N\"/>", "<component name=\"C0\"/>");
    let error = Dictionary::from_xml(&bomb).unwrap_err().to_string();
    assert!(error.contains("20,000"), "{error}");
}
