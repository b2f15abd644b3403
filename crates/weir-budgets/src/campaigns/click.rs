//! Where clicks on a creative lead.

use serde_json::Value;

use super::fields::{Object, text};

/// Reads it; markup that leads there needs it.
pub(super) fn read(object: &mut Object<'_, '_>, markup: Option<&str>) -> Option<String> {
    if markup.is_some_and(openrtb::leads) && object.value("click").is_none() {
        object.fault("click", "missing; ${WEIR_CLICK} and ${WEIR_CLICK_ESC} in markup lead there");
    }
    object.optional("click", address)
}

/// An address of the web, as it is sent on.
fn address(value: &Value) -> Result<String, String> {
    let most = openrtb::CLICK_BYTES_MAX;
    let expected = format!("http:// or https:// and a host, at most {most} bytes, without blanks");
    let sound = |text: &str| openrtb::Redirect::to(text).map(|_| text.to_string());
    text(value, &expected, sound)
}
