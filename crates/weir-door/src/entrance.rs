//! Whom a door lets in: everybody with its one key, where it has one, and the principals of its token file.

use std::sync::Arc;

use access::{Denied, LiveTokens, Principal, Role, TokenDigest, TokenView};

/// What a worker knows of it.
pub struct Entrance {
    /// The digest of the one key for all.
    key: Option<TokenDigest>,
    /// The principals of the door's token file.
    tokens: Option<TokenView>,
}

impl Entrance {
    /// With an empty key and without a file the door lets everybody in.
    pub fn new(key: &[u8], tokens: Option<&LiveTokens>) -> Entrance {
        let key = (!key.is_empty()).then(|| TokenDigest::of(key));
        Entrance { key, tokens: tokens.map(LiveTokens::view) }
    }

    /// Does it let everybody in?
    #[inline]
    pub fn is_open(&self) -> bool {
        self.key.is_none() && self.tokens.is_none()
    }

    /// Takes over the token file in force: once per wake-up, never in the middle of a batch.
    #[inline(always)]
    pub fn refresh(&mut self) {
        if let Some(tokens) = &mut self.tokens {
            tokens.refresh();
        }
    }

    /// Which file that is.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.tokens.as_ref().map_or(0, TokenView::number)
    }

    /// Whom a token lets in. Who has the one key is nobody in particular.
    pub fn enter(&self, token: &[u8]) -> Result<Option<Arc<Principal>>, Denied> {
        if self.is_open() {
            return Ok(None);
        }
        if self.key.is_some_and(|key| key.is_same(&TokenDigest::of(token))) {
            return Ok(None);
        }
        admitted(self.tokens.as_ref().and_then(|tokens| tokens.file().find(token))).map(Some)
    }

    /// Whom a token names, whatever the role; `None` of nobody. Who has the one key is nobody in particular.
    pub fn find(&self, token: &[u8]) -> Option<Option<Arc<Principal>>> {
        if self.key.is_some_and(|key| key.is_same(&TokenDigest::of(token))) {
            return Some(None);
        }
        let found = self.tokens.as_ref().and_then(|tokens| tokens.file().find(token));
        found.map(|principal| Some(Arc::clone(principal)))
    }

    /// The same principal in the file in force.
    pub fn enter_again(&self, principal: &Principal) -> Result<Arc<Principal>, Denied> {
        admitted(self.tokens.as_ref().and_then(|tokens| tokens.file().find_again(principal)))
    }
}

/// Are these two secrets the same? Compared whole, however much of them is alike.
pub fn are_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differ) == 0
}

fn admitted(found: Option<&Arc<Principal>>) -> Result<Arc<Principal>, Denied> {
    let found = found.ok_or(Denied::Unknown)?;
    match found.role() {
        Role::Spend => Ok(Arc::clone(found)),
        other => Err(Denied::Role(other)),
    }
}

#[cfg(test)]
mod tests {
    use access::TokenFile;

    use super::*;

    const FILE: &str = "shop spend shop-0123456789a budget:1\nann operate ann-0123456789ab";

    fn name(entered: Result<Option<Arc<Principal>>, Denied>) -> Result<Option<String>, Denied> {
        entered.map(|found| found.map(|principal| principal.name().to_string()))
    }

    #[test]
    fn the_key_the_principals_and_nobody_else() {
        let tokens = LiveTokens::new(TokenFile::parse(FILE).unwrap());
        let open = Entrance::new(b"", None);
        assert_eq!(name(open.enter(b"anything")), Ok(None));
        let key = Entrance::new(b"open sesame", None);
        assert_eq!(name(key.enter(b"open sesame")), Ok(None));
        let both = Entrance::new(b"open sesame", Some(&tokens));
        assert_eq!(name(both.enter(b"open sesame")), Ok(None));
        assert_eq!(name(both.enter(b"shop-0123456789a")), Ok(Some("shop".into())));
        let file = Entrance::new(b"", Some(&tokens));
        for entrance in [key, both, file] {
            for wrong in [&b""[..], b"open", b"open sesamE", b"open sesame and more", b"\xff"] {
                assert_eq!(name(entrance.enter(wrong)), Err(Denied::Unknown));
            }
        }
        let file = Entrance::new(b"", Some(&tokens));
        assert_eq!(name(file.enter(b"ann-0123456789ab")), Err(Denied::Role(Role::Operate)));
        assert_eq!(name(file.enter(b"open sesame")), Err(Denied::Unknown));
    }

    #[test]
    fn a_token_that_is_gone_or_has_another_role_does_not_enter_again() {
        let tokens = LiveTokens::new(TokenFile::parse(FILE).unwrap());
        let mut entrance = Entrance::new(b"", Some(&tokens));
        let shop = entrance.enter(b"shop-0123456789a").unwrap().unwrap();
        for (file, expected) in [
            ("shop2 spend shop-0123456789a", Ok("shop2")),
            ("shop read shop-0123456789a", Err(Denied::Role(Role::Read))),
            ("shop spend shop-0123456789b", Err(Denied::Unknown)),
        ] {
            tokens.replace(TokenFile::parse(file).unwrap());
            let before = entrance.number();
            entrance.refresh();
            assert_eq!(entrance.number(), before + 1);
            let again = entrance.enter_again(&shop);
            assert_eq!(again.as_ref().map(|p| &**p.name()).map_err(|denied| *denied), expected);
        }
    }
}
