//! Domains out of what is sent in their place: addresses, wildcards, blanks.

/// Bytes that a domain has not: controls, blanks, and what addresses and wildcards are made of. A table, because every
/// byte of every blocked advertiser is looked at.
const STRANGE: [bool; 256] = {
    let mut strange = [false; 256];
    let mut byte = 0;
    while byte <= b'*' as usize {
        strange[byte] = true;
        byte += 1;
    }
    let marks = b"/:?@[]";
    let mut mark = 0;
    while mark < marks.len() {
        strange[marks[mark] as usize] = true;
        mark += 1;
    }
    strange
};

/// Is this a bare domain, letter for letter? Only then is nothing to take away.
#[inline]
pub(crate) fn is_bare(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends_in_dot = bytes.first() == Some(&b'.') || bytes.last() == Some(&b'.');
    !ends_in_dot && !bytes.iter().any(|byte| STRANGE[usize::from(*byte)])
}

/// The domain that a text names: `brand.example` of `https://brand.example:443/shoes?a#b`, `*.brand.example`,
/// `.brand.example` or ` brand.example. `. A text without any is given back as it is.
#[must_use]
pub(crate) fn of(text: &str) -> &str {
    if is_bare(text) {
        return text;
    }
    let rest = text.trim_ascii();
    let rest = match rest.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', '?', '#']) => rest,
        _ => rest.strip_prefix("//").unwrap_or(rest),
    };
    let rest = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let rest = rest.rsplit('@').next().unwrap_or(rest);
    let rest = match rest.split_once(']') {
        Some((address, _)) => address.trim_start_matches('['),
        None => rest.split(':').next().unwrap_or(rest),
    };
    let rest = rest.trim_ascii().trim_start_matches(['*', '.']).trim_end_matches('.');
    if rest.is_empty() { text } else { rest }
}

/// The domain of a page's address; `None` where the address has none, as `about:blank`.
pub(crate) fn of_page(address: &str) -> Option<&str> {
    let domain = of(address);
    (is_bare(domain) && domain.contains('.')).then_some(domain)
}

/// The domain and all domains above it, its own first: `a.b.example`, `b.example`, `example`. A list of sites, allowed
/// or blocked, that names one of them names the domain. An address of numbers has nothing above it.
pub fn domains_above(domain: &str) -> impl Iterator<Item = &str> {
    let is_number =
        domain.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b':');
    std::iter::successors(Some(domain), move |one| {
        one.split_once('.').map(|(_, above)| above).filter(|_| !is_number)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn domains_of_what_is_sent_in_their_place() {
        for text in [
            "brand.example",
            "http://brand.example/",
            "https://brand.example:8443/shoes?at=http://other.example/#top",
            "https://user:secret@brand.example/",
            "//brand.example/x",
            "brand.example/",
            "brand.example?x",
            "*.brand.example",
            ".brand.example",
            "brand.example.",
            "  brand.example ",
        ] {
            assert_eq!(of(text), "brand.example", "{text}");
            assert_eq!(is_bare(text), text == "brand.example", "{text}");
        }
        assert!(is_bare("shop-1.brand.example") && is_bare("xn--bcher-kva.example"));
        for text in ["", "*", "/", "https://", "..."] {
            assert_eq!(of(text), text);
        }
        assert_eq!(of("http://[2001:db8::1]:80/x"), "2001:db8::1");
        assert_eq!(of_page("https://M.News.example/a"), Some("M.News.example"));
        for page in ["about:blank", "", "not an address", "file:///etc/passwd", "http://[::1]/"] {
            assert_eq!(of_page(page), None, "{page}");
        }
    }

    #[test]
    fn domains_above_end_at_the_last_label() {
        let above = |domain| domains_above(domain).collect::<Vec<_>>();
        assert_eq!(above("m.bad.example"), ["m.bad.example", "bad.example", "example"]);
        assert_eq!(above("example"), ["example"]);
        assert_eq!(above("192.0.2.1"), ["192.0.2.1"]);
    }

    proptest! {
        #[test]
        fn any_text_is_cut_without_a_panic_and_only_once(text in "\\PC{0,30}") {
            let domain = of(&text);
            prop_assert!(text.contains(domain));
            prop_assert!(!is_bare(&text) || domain == text, "{}", text);
        }
    }
}
