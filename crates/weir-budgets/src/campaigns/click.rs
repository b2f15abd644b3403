//! Where clicks on a creative lead.

use serde_json::Value;

use super::Campaign;
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

/// Clicks that are never counted: the first creative with a macro of ours that there is not, and the first with `click` and no macro of one.
pub(crate) fn click_doubts(id: u64, campaign: Option<&Campaign>) -> [Option<String>; 2] {
    let creatives = || campaign.into_iter().flat_map(|campaign| &campaign.creatives);
    let unknown = creatives().find_map(|one| Some((one, openrtb::unknown_macro(&one.markup)?)));
    let unused = creatives().find(|one| one.click.is_some() && !openrtb::asks_click(&one.markup));
    [
        unknown.map(|(creative, name)| {
            format!(
                "budget {id}: creative {}: {name} in its markup is no macro, and is sent as it stands; there are {}",
                creative.id,
                openrtb::macros().collect::<Vec<_>>().join(", ")
            )
        }),
        unused.map(|creative| {
            format!(
                "budget {id}: creative {}: nothing leads to its `click`: put ${{WEIR_CLICK}} into its markup",
                creative.id
            )
        }),
    ]
}
