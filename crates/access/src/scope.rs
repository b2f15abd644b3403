//! Scopes: to which budgets, or to which keys, a principal is limited.

/// Scopes of one principal at most.
const SCOPES_MAX: usize = 256;
/// What a scope of budgets by their ids begins with. A door with other things to limit adds its own kind.
const BUDGET: &str = "budget:";
/// What one of budgets by their handles begins with.
const HANDLE: &str = "handle:";
/// Longest handle, in bytes; `wire::HANDLE_BYTES_MAX`, which this crate does not know.
const HANDLE_BYTES_MAX: usize = 128;
/// What a scope of the keys door begins with: that door reads the rest.
const TRANSIT: &str = "transit/";
/// Longest scope of the keys door, in bytes: a verb and the longest name of a key.
const KEY_SCOPE_BYTES_MAX: usize = 192;

/// Characters of a wrong scope that is repeated, at most.
const FOUND_MAX: usize = 200;

/// The scopes of a principal. None at all means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// Ids, in order.
    ids: Box<[u64]>,
    prefixes: Box<[Prefix]>,
    /// Handles, and beginnings of them.
    handles: Box<[HandlePattern]>,
    /// Scopes of the keys door, as written; beside these there are no others.
    of_keys: Box<str>,
}

/// Handles that a principal may name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HandlePattern {
    text: Box<str>,
    /// All that begin so, not the one that is so.
    begins: bool,
}

/// The first decimal digits of ids; no digits: all ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    value: u64,
    digits: u32,
}

/// Why scopes cannot be read. What was found is told by [`found_scope`], unless it may be a token in the wrong column.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScopeError {
    /// Not a scope.
    #[error(
        "scope {0}: expected budget:ID, budget:DIGITS*, budget:*, handle:HANDLE or handle:BEGINNING*, an ID without leading zeros, and in a handle only A-Z a-z 0-9 . _ / : @ -"
    )]
    Form(usize),
    /// Not a scope of the keys door.
    #[error(
        "scope {0}: expected transit/VERB/NAME or transit/VERB/NAME*, in a NAME only A-Z a-z 0-9 . _ -"
    )]
    KeyForm(usize),
    /// More than there may be.
    #[error("expected at most {SCOPES_MAX} scopes")]
    Many,
}

impl ScopeError {
    /// Returns what stands there in the text of the scopes, as [`found_scope`] says it.
    #[must_use]
    pub fn found(self, text: &str) -> String {
        match self {
            ScopeError::Form(place) | ScopeError::KeyForm(place) => found_scope(text, place),
            ScopeError::Many => String::new(),
        }
    }
}

/// Says which scope stands at a place, from 1, of the text of scopes: `; found "SCOPE"`. Empty for what may be a token: no token has a slash or
/// a colon in it.
#[must_use]
pub fn found_scope(text: &str, place: usize) -> String {
    let found = text.split(',').nth(place.saturating_sub(1)).unwrap_or_default();
    match found.contains(['/', ':']) && found.chars().count() <= FOUND_MAX {
        true => format!("; found {found:?}"),
        false => String::new(),
    }
}

impl Scopes {
    /// Reads `budget:ID` (one budget), `budget:DIGITS*` (all whose ids begin with these digits), `budget:*` (all), `handle:HANDLE` (the
    /// one with this handle) and `handle:BEGINNING*` (all whose handles begin so), separated by commas; an empty text is no scope.
    ///
    /// # Errors
    /// [`ScopeError`]: the number of the first scope that cannot be read, from 1, or too many scopes.
    pub fn parse(text: &str) -> Result<Scopes, ScopeError> {
        let (mut ids, mut prefixes, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for (number, scope) in (1..).zip(text.split(',').filter(|_| !text.is_empty())) {
            if number > SCOPES_MAX {
                return Err(ScopeError::Many);
            }
            if let Some(pattern) = scope.strip_prefix(HANDLE) {
                handles.push(HandlePattern::parse(pattern).ok_or(ScopeError::Form(number))?);
                continue;
            }
            let pattern = scope.strip_prefix(BUDGET).ok_or(ScopeError::Form(number))?;
            match pattern.strip_suffix('*') {
                Some(digits) => {
                    prefixes.push(Prefix::parse(digits).ok_or(ScopeError::Form(number))?);
                }
                None => ids.push(id(pattern).ok_or(ScopeError::Form(number))?),
            }
        }
        ids.sort_unstable();
        let (ids, prefixes, handles) = (ids.into(), prefixes.into(), handles.into());
        Ok(Scopes { ids, prefixes, handles, of_keys: Box::default() })
    }

    /// Reads scopes of the keys door, `transit/VERB/NAME` or `transit/VERB/NAME*`, separated by commas; an empty text is no scope. What
    /// verbs there are, that door knows: it reads [`Scopes::of_keys`].
    ///
    /// # Errors
    /// [`ScopeError`]: the number of the first scope that cannot be one, from 1, or too many scopes.
    pub fn parse_of_keys(text: &str) -> Result<Scopes, ScopeError> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/*".contains(&byte);
        for (number, scope) in (1..).zip(text.split(',').filter(|_| !text.is_empty())) {
            if number > SCOPES_MAX {
                return Err(ScopeError::Many);
            }
            let fits = scope.len() <= KEY_SCOPE_BYTES_MAX && scope.bytes().all(is_part);
            if !fits || !scope.starts_with(TRANSIT) {
                return Err(ScopeError::KeyForm(number));
            }
        }
        Ok(Scopes { of_keys: text.into(), ..Scopes::default() })
    }

    /// Returns the scopes of the keys door, as written; empty where there are none.
    #[must_use]
    pub fn of_keys(&self) -> &str {
        &self.of_keys
    }

    /// Tells whether they are about keys, so that no budget is within them.
    #[must_use]
    pub fn knows_keys(&self) -> bool {
        !self.of_keys.is_empty()
    }

    /// Is there any limit?
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        let has_budgets =
            !(self.ids.is_empty() && self.prefixes.is_empty() && self.handles.is_empty());
        has_budgets || self.knows_keys()
    }

    /// Is any of them about handles? Then [`Scopes::allows_budget`] alone does not say who may name a budget that has one.
    #[inline]
    #[must_use]
    pub fn knows_handles(&self) -> bool {
        !self.handles.is_empty()
    }

    /// May the principal name the budget with this id and this handle?
    #[must_use]
    pub fn allows(&self, id: u64, handle: Option<&str>) -> bool {
        self.allows_budget(id) || handle.is_some_and(|handle| self.allows_handle(handle))
    }

    /// May the principal name every budget that has this handle, also one that is yet to be made and has no id?
    #[must_use]
    pub fn allows_handle(&self, handle: &str) -> bool {
        !self.is_limited()
            || self.prefixes.iter().any(|prefix| prefix.digits == 0)
            || self.handles.iter().any(|pattern| pattern.matches(handle))
    }

    /// May the principal name this budget by its id alone, whatever its handle is?
    #[must_use]
    pub fn allows_budget(&self, id: u64) -> bool {
        !self.is_limited()
            || self.ids.binary_search(&id).is_ok()
            || self.prefixes.iter().any(|prefix| prefix.begins(id))
    }
}

/// As written in a file: `budget:7,budget:1*,handle:shop/*`, or `transit/encrypt/shop-*`.
impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.knows_keys() {
            return f.write_str(&self.of_keys);
        }
        let ids = self.ids.iter().map(|id| format!("{BUDGET}{id}"));
        let prefixes = self.prefixes.iter().map(|prefix| match prefix.digits {
            0 => format!("{BUDGET}*"),
            _ => format!("{BUDGET}{}*", prefix.value),
        });
        let handles = self.handles.iter().map(|pattern| {
            format!("{HANDLE}{}{}", pattern.text, if pattern.begins { "*" } else { "" })
        });
        f.write_str(&ids.chain(prefixes).chain(handles).collect::<Vec<_>>().join(","))
    }
}

impl HandlePattern {
    /// `None`: characters that no handle has, or none at all.
    fn parse(pattern: &str) -> Option<HandlePattern> {
        let (text, begins) = match pattern.strip_suffix('*') {
            Some(text) => (text, true),
            None => (pattern, false),
        };
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
        let sound = (1..=HANDLE_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed);
        sound.then(|| HandlePattern { text: text.into(), begins })
    }

    fn matches(&self, handle: &str) -> bool {
        if self.begins { handle.starts_with(&*self.text) } else { *self.text == *handle }
    }
}

impl Prefix {
    fn parse(digits: &str) -> Option<Prefix> {
        if digits.is_empty() {
            return Some(Prefix { value: 0, digits: 0 });
        }
        // No id but 0 begins with 0.
        let value = id(digits).filter(|value| *value > 0)?;
        Some(Prefix { value, digits: length(value) })
    }

    fn begins(self, id: u64) -> bool {
        match length(id).checked_sub(self.digits) {
            Some(further) => self.digits == 0 || id / 10_u64.pow(further) == self.value,
            None => false,
        }
    }
}

/// Decimal digits of an id.
fn length(id: u64) -> u32 {
    id.checked_ilog10().unwrap_or(0) + 1
}

/// A number without sign and leading zeros.
fn id(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = digits == "0" || !digits.starts_with('0');
    (is_number && is_short).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_wrong_scope_is_repeated_unless_it_may_be_a_token() {
        let found = |text: &str| Scopes::parse(text).unwrap_err().found(text);
        assert_eq!(found("budget:1,transit/*/x"), "; found \"transit/*/x\"");
        assert_eq!(found("budget:01"), "; found \"budget:01\"");
        for token in ["weir_0123456789abcdef", "0123456789abcdef", ""] {
            assert_eq!(found(&format!("budget:1,{token}")), "", "{token}");
        }
        assert_eq!(found(&format!("x:{}", "y".repeat(500))), "");
        assert_eq!(found(&["budget:1"; SCOPES_MAX + 1].join(",")), "");
    }

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn scopes_say_which_budgets() {
        let allows = |text: &str, id| Scopes::parse(text).unwrap().allows_budget(id);
        assert!(allows("", 7) && allows("budget:*", 7) && allows("budget:*", 0));
        assert!(allows("budget:1001", 1001) && !allows("budget:1001", 1002));
        assert!(!allows("budget:1001", 10_010) && !allows("budget:1001", 0));
        for id in [10, 100, 109, 1_012_345, 10_000_000_000_000_000_000] {
            assert!(allows("budget:10*", id), "{id}");
        }
        for id in [0, 1, 11, 2, 20, 110, 9_999, u64::MAX] {
            assert!(!allows("budget:10*", id), "{id}");
        }
        let max = u64::MAX;
        assert!(allows(&format!("budget:{max}*"), max) && allows(&format!("budget:{max}"), max));
        assert!(allows("budget:0", 0) && !allows("budget:1*", 0));
        let some = Scopes::parse("budget:9,budget:2*,budget:5").unwrap();
        assert_eq!(some.to_string(), "budget:5,budget:9,budget:2*");
        assert_eq!([5, 9, 2, 29].map(|id| some.allows_budget(id)), [true; 4]);
        assert_eq!([1, 50, 92].map(|id| some.allows_budget(id)), [false; 3]);
        assert!(some.is_limited() && !Scopes::default().is_limited());
    }

    #[test]
    fn scopes_name_budgets_by_handle() {
        let scopes = Scopes::parse("budget:7,handle:llm/team-42/*,handle:shop").unwrap();
        assert!(scopes.is_limited() && scopes.knows_handles());
        assert_eq!(scopes.to_string(), "budget:7,handle:llm/team-42/*,handle:shop");
        for handle in ["llm/team-42/ann", "llm/team-42/ann/x", "shop", "llm/team-42/"] {
            assert!(scopes.allows_handle(handle) && scopes.allows(9, Some(handle)), "{handle}");
        }
        for handle in ["llm/team-42", "llm/team-421/ann", "Shop", "shop2", "LLM/team-42/ann", ""] {
            assert!(!scopes.allows_handle(handle) && !scopes.allows(9, Some(handle)), "{handle}");
        }
        assert!(
            scopes.allows(7, None) && scopes.allows(7, Some("other")) && !scopes.allows(9, None)
        );
        // Who may name all may name what is yet to be made; who may name ids may not.
        let all = ["", "budget:*"].map(|text| Scopes::parse(text).unwrap().allows_handle("a"));
        let ids =
            ["budget:7", "budget:1*"].map(|text| Scopes::parse(text).unwrap().allows_handle("a"));
        assert_eq!((all, ids), ([true; 2], [false; 2]));
        let digits = Scopes::parse("handle:4*").unwrap();
        assert!(digits.allows_handle("4a") && !digits.allows_budget(4));
        let long = format!("handle:{}", "h".repeat(HANDLE_BYTES_MAX + 1));
        assert_eq!(Scopes::parse(&long), Err(ScopeError::Form(1)));
    }

    #[test]
    fn scopes_of_keys_are_kept_as_written_and_allow_no_budget() {
        let text = "transit/encrypt/shop-*,transit/*/one";
        let scopes = Scopes::parse_of_keys(text).unwrap();
        assert_eq!((scopes.of_keys(), scopes.to_string().as_str()), (text, text));
        assert!(scopes.is_limited() && scopes.knows_keys());
        assert!(!scopes.allows_budget(7) && !scopes.allows_handle("shop-a"));
        assert!(!scopes.allows(7, Some("shop-a")));
        let none = Scopes::parse_of_keys("").unwrap();
        assert!(!none.is_limited() && !none.knows_keys());
        let long = format!("transit/encrypt/{}", "k".repeat(KEY_SCOPE_BYTES_MAX));
        for wrong in
            ["budget:1", "shop", "transit", "transit/encrypt/a b", " transit/*/*", "", &long]
        {
            let text = format!("transit/read/a,{wrong}");
            assert_eq!(Scopes::parse_of_keys(&text), Err(ScopeError::KeyForm(2)), "{wrong}");
        }
        let many = vec!["transit/*/a"; SCOPES_MAX + 1].join(",");
        assert_eq!(Scopes::parse_of_keys(&many), Err(ScopeError::Many));
        assert_eq!(Scopes::parse("transit/*/a"), Err(ScopeError::Form(1)));
    }

    #[test]
    fn what_is_no_scope_is_refused_and_not_repeated() {
        for wrong in [
            "1001",
            "budget",
            "budget:",
            "budget:1**",
            "budget:shop",
            "budget:llm/*",
            "handle:",
            "handle:*",
            "handle:a**",
            "handle:a*b",
            "handle:a b",
            "handle:\u{430}",
            "budget:*1",
            "budget:+1",
            "budget:01",
            "budget:00",
            "budget:0*",
            "budget: 1",
            "budget:18446744073709551616",
            "Budget:1",
            "campaign:1",
            "budget:1*2",
            "*",
            ",",
            "budget:\u{661}",
        ] {
            assert_eq!(Scopes::parse(wrong), Err(ScopeError::Form(1)), "{wrong}");
        }
        assert_eq!(Scopes::parse("budget:1,"), Err(ScopeError::Form(2)));
        assert_eq!(Scopes::parse("budget:1,,budget:2"), Err(ScopeError::Form(2)));
        let many = |count| vec!["budget:1"; count].join(",");
        assert!(Scopes::parse(&many(SCOPES_MAX)).is_ok());
        assert_eq!(Scopes::parse(&many(SCOPES_MAX + 1)), Err(ScopeError::Many));
    }

    proptest! {
        #[test]
        fn a_prefix_is_one_of_the_decimal_text(id: u64, digits in 1..u64::from(u32::MAX), short in 1..2_000_u64) {
            for prefix in [digits, short, id.max(1), (id / 10).max(1)] {
                let allowed = Scopes::parse(&format!("budget:{prefix}*")).unwrap().allows_budget(id);
                prop_assert_eq!(allowed, id.to_string().starts_with(&prefix.to_string()));
            }
        }

        #[test]
        fn what_is_written_reads_back(ids in prop::collection::vec(any::<u64>(), 0..9), prefixes in prop::collection::vec(1..u64::MAX, 0..9)) {
            let ids = ids.iter().map(|id| format!("budget:{id}"));
            let all: Vec<String> = ids.chain(prefixes.iter().map(|p| format!("budget:{p}*"))).collect();
            let scopes = Scopes::parse(&all.join(",")).unwrap();
            prop_assert_eq!(Scopes::parse(&scopes.to_string()), Ok(scopes));
        }
    }
}
