//! The generator refuses what it does not support, and says where.

/// The generator of the build script.
#[path = "../../build/mod.rs"]
mod build;

const OLD: &str = include_str!("../schema/evolve_old.xml");
const NEW: &str = include_str!("../schema/evolve_new.xml");

const OPTIONS: build::Options = build::Options { version_min: 1, framed: true };

/// Replaces one piece of the newer schema and gives the error.
fn error_of(from: &str, to: &str) -> String {
    assert!(NEW.contains(from), "the schema has no {from:?}");
    let xml = NEW.replacen(from, to, 1);
    match build::generate("new.xml", &xml, OPTIONS) {
        Ok(_) => panic!("accepted {to:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sound_schemas_pass_and_the_same_schema_gives_the_same_code() {
    for xml in [OLD, NEW] {
        let first = build::generate("x.xml", xml, OPTIONS).expect("a sound schema");
        assert_eq!(first, build::generate("x.xml", xml, OPTIONS).expect("a sound schema"));
    }
}

#[test]
fn errors_name_file_line_and_element() {
    let error = error_of("type=\"int16\"", "type=\"decimal\"");
    assert!(error.starts_with("new.xml:"), "{error}");
    assert!(error.contains("<field name=\"count\">") && error.contains("\"decimal\""), "{error}");
    let line = NEW.lines().position(|l| l.contains("name=\"count\"")).expect("the field") + 1;
    assert!(error.starts_with(&format!("new.xml:{line}:")), "{error}");
}

#[test]
fn what_is_unsupported_is_refused() {
    let cases = [
        ("byteOrder=\"littleEndian\"", "byteOrder=\"bigEndian\"", "byteOrder"),
        ("type=\"int16\"", "type=\"double\"", "\"double\" is unsupported"),
        ("type=\"int16\"", "type=\"int16\" presence=\"optional\"", "presence"),
        ("type=\"int16\"", "type=\"int16\" offset=\"8\"", "offset"),
        ("name=\"count\"", "name=\"item\"", "used by an earlier field"),
        ("name=\"count\"", "name=\"type\"", "reserved"),
        ("name=\"count\"", "name=\"\"", "not plain"),
        ("<field name=\"order\" id=\"1\" type=\"uint64\"/>", "", "without fields"),
        ("<group name=\"lines\"", "<group name=\"lines\" blockLength=\"99\"", "blockLength"),
        ("encodingType=\"uint8\"", "encodingType=\"uint16\"", "encodingType"),
        ("<validValue name=\"RED\">0<", "<validValue name=\"RED\">255<", "255 means null"),
        ("<validValue name=\"RED\">0<", "<validValue name=\"RED\">1<", "used before"),
        ("<choice name=\"express\">0<", "<choice name=\"express\">16<", "expected 0 to 15"),
        (
            "<composite name=\"messageHeader\">",
            "<composite name=\"header\">",
            "unsupported composite",
        ),
        ("characterEncoding=\"UTF-8\"", "characterEncoding=\"UTF-16\"", "UTF-8"),
        ("primitiveType=\"char\" length=\"3\"", "primitiveType=\"int16\" length=\"3\"", "arrays"),
        ("name=\"Cancel\" id=\"2\"", "name=\"Cancel\" id=\"1\"", "earlier message"),
        ("<sbe:message name=\"Cancel\"", "<sbe:event name=\"Cancel\"", "XML"),
        ("<data name=\"note\"", "<blob name=\"note\"", "expected field, group or data"),
        ("type=\"varDataEncoding\"", "type=\"blobEncoding\"", "var data composite"),
    ];
    for (from, to, expected) in cases {
        let error = error_of(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn evolution_that_would_break_readers_is_refused() {
    let newer_than_schema =
        error_of("type=\"int64\" sinceVersion=\"3\"", "type=\"int64\" sinceVersion=\"4\"");
    assert!(newer_than_schema.contains("newer than the schema"), "{newer_than_schema}");
    let in_the_middle =
        error_of("type=\"int64\" sinceVersion=\"3\"", "type=\"int64\" sinceVersion=\"1\"");
    assert!(in_the_middle.contains("add at the end only"), "{in_the_middle}");
    let value =
        error_of("<validValue name=\"RED\">", "<validValue name=\"RED\" sinceVersion=\"4\">");
    assert!(value.contains("newer than the schema"), "{value}");
}
