//! The normal forms of texts. Campaigns are read into them; what a request says is brought into them before it is
//! looked up. A text that is in its form already, as nearly all of real traffic is, costs no allocation.
//!
//! Segments, deals, seats, the ids of sites and apps, and bundles stay as they are: they are somebody's keys.

use std::borrow::Cow;

use super::countries::COUNTRIES;

/// Operating systems by their spellings, in lower case, and their form.
const SYSTEMS: [(&str, &str); 25] = [
    ("android", "android"),
    ("ios", "ios"),
    ("iphone os", "ios"),
    ("windows", "windows"),
    ("macos", "macos"),
    ("mac os", "macos"),
    ("mac os x", "macos"),
    ("os x", "macos"),
    ("linux", "linux"),
    ("ipados", "ipados"),
    ("tvos", "tvos"),
    ("apple tvos", "tvos"),
    ("androidtv", "androidtv"),
    ("android tv", "androidtv"),
    ("fireos", "fireos"),
    ("fire os", "fireos"),
    ("roku", "roku"),
    ("roku os", "roku"),
    ("tizen", "tizen"),
    ("webos", "webos"),
    ("web os", "webos"),
    ("chromeos", "chromeos"),
    ("chrome os", "chromeos"),
    ("playstation", "playstation"),
    ("xbox", "xbox"),
];

/// A domain: lower case, without `www.` in front and a dot at the end.
#[must_use]
pub fn domain(text: &str) -> Cow<'_, str> {
    let text = text.strip_suffix('.').unwrap_or(text);
    match text.split_at_checked(4) {
        Some((www, rest)) if www.eq_ignore_ascii_case("www.") => lower(rest),
        _ => lower(text),
    }
}

/// A country: three capital letters, also where two were given. What is no country stays what it is, in capitals.
#[must_use]
pub fn country(text: &str) -> Cow<'_, str> {
    if text.len() == 3 && is_upper(text) {
        return Cow::Borrowed(text);
    }
    match find_country(text) {
        Some(letters) => Cow::Borrowed(letters),
        None => upper(text),
    }
}

/// The three letters of a country that is given by two or three, in upper or lower case.
#[must_use]
pub fn find_country(text: &str) -> Option<&'static str> {
    let is = |entry: &&(&str, &str)| {
        text.eq_ignore_ascii_case(entry.0) || text.eq_ignore_ascii_case(entry.1)
    };
    COUNTRIES.iter().find(is).map(|(_, letters)| *letters)
}

/// A region as `USA-CA`, written to `room`. `region` may repeat the country, as in `US-CA`.
pub fn region<'a>(country: &str, region: &str, room: &'a mut String) -> &'a str {
    let region = region.rsplit_once('-').map_or(region, |(_, last)| last);
    room.clear();
    room.push_str(&self::country(country));
    room.push('-');
    room.extend(region.chars().map(|letter| letter.to_ascii_uppercase()));
    room
}

/// A language: its primary tag in lower case, `en` of `en-US`.
#[must_use]
pub fn language(text: &str) -> Cow<'_, str> {
    let end = text.find(['-', '_']).unwrap_or(text.len());
    lower(&text[..end])
}

/// A category: capital letters, `IAB2-3`.
#[must_use]
pub fn category(text: &str) -> Cow<'_, str> {
    upper(text)
}

/// An operating system: one spelling for `Mac OS X`, `OS X` and `macOS`; others in lower case.
#[must_use]
pub fn os(text: &str) -> Cow<'_, str> {
    match SYSTEMS.iter().find(|(spelling, _)| text.eq_ignore_ascii_case(spelling)) {
        Some((_, form)) => Cow::Borrowed(form),
        None => lower(text),
    }
}

fn is_upper(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn lower(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(text.to_ascii_lowercase()),
        false => Cow::Borrowed(text),
    }
}

fn upper(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => Cow::Owned(text.to_ascii_uppercase()),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Form = fn(&str) -> Cow<'_, str>;

    const FORMS: [Form; 5] = [domain, country, language, category, os];

    #[test]
    fn forms_by_table() {
        for (form, text, expected) in [
            (domain as Form, "WWW.News.Example.", "news.example"),
            (domain, "news.example", "news.example"),
            (domain, "www.", "www"),
            (domain, "w\u{e9}\u{e9}b.example", "w\u{e9}\u{e9}b.example"),
            (country, "USA", "USA"),
            (country, "us", "USA"),
            (country, "deu", "DEU"),
            (country, "mars", "MARS"),
            (language, "en-US", "en"),
            (language, "zh_Hans", "zh"),
            (language, "DE", "de"),
            (category, "iab7-39", "IAB7-39"),
            (os, "iOS", "ios"),
            (os, "Mac OS X", "macos"),
            (os, "BeOS", "beos"),
        ] {
            assert_eq!(form(text), expected, "{text}");
        }
        let mut room = String::new();
        assert_eq!(region("USA", "CA", &mut room), "USA-CA");
        assert_eq!(region("us", "US-ca", &mut room), "USA-CA");
        assert_eq!(region("FRA", "IDF", &mut room), "FRA-IDF");
    }

    #[test]
    fn what_real_traffic_says_is_borrowed() {
        for (form, text) in [
            (domain as Form, "www.news.example"),
            (country, "DEU"),
            (country, "de"),
            (language, "en-US"),
            (category, "IAB12"),
            (os, "Windows"),
            (os, "Android"),
            (os, "iOS"),
        ] {
            assert!(matches!(form(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn countries_are_in_order_and_told_apart() {
        assert!(COUNTRIES.is_sorted());
        let mut letters: Vec<&str> = COUNTRIES.iter().map(|(_, letters)| *letters).collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), COUNTRIES.len());
        assert!(COUNTRIES.iter().all(|(two, three)| two.len() == 2 && three.len() == 3));
        assert!(COUNTRIES.iter().all(|(two, three)| is_upper(two) && is_upper(three)));
    }

    proptest! {
        #[test]
        fn a_form_is_a_form_of_itself(text in "(www\\.|WWW\\.)?\\PC{0,8}[a-zA-Z.-]{0,8}") {
            for form in FORMS {
                let once = form(&text).into_owned();
                // A domain loses one `www.` and one dot, not all of them.
                let nested = once.starts_with("www.") || once.ends_with('.');
                prop_assert!(nested || form(&once) == once, "{} of {}", once, text);
            }
        }

        #[test]
        fn regions_of_any_text(country in "\\PC{0,6}", name in "\\PC{0,6}") {
            let mut room = String::from("what was there");
            let form = region(&country, &name, &mut room);
            prop_assert!(form.starts_with(&*self::country(&country)) && form.contains('-'));
        }
    }
}
