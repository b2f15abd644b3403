//! Whose keys of idempotency are kept: by name for people, and a warning before one caller has no room.

use std::collections::BTreeSet;

use access::{KeySecret, LiveTokens};

/// How many are told of; the rest is one sum.
const TOLD_MAX: usize = 16;
/// Who pays with such a door open has no name.
const EVERYBODY: &str = "everybody";
/// What the rest is called.
const OTHERS: &str = "others";
/// From so many hundredths of the keys that a caller may have on it warns, and again once it was below [`CALM_PERCENT`] in between.
const WARN_PERCENT: usize = 80;
const CALM_PERCENT: usize = 70;

/// Names for the numbers of callers, and who was warned of.
#[derive(Debug)]
pub(crate) struct Callers {
    secret: KeySecret,
    tokens: Option<LiveTokens>,
    warned: BTreeSet<u32>,
}

impl Callers {
    /// Callers of the spend door: those of its tokens file, or everybody.
    pub(crate) fn new(secret: KeySecret, tokens: Option<LiveTokens>) -> Callers {
        Callers { secret, tokens, warned: BTreeSet::new() }
    }

    /// Those with the most keys by name, and the others together. `kept` has the largest first.
    pub(crate) fn told(&self, kept: &[(u32, usize)]) -> Vec<(String, u64)> {
        let (first, rest) = kept.split_at(kept.len().min(TOLD_MAX));
        let mut told: Vec<(String, u64)> =
            first.iter().map(|(caller, keys)| (self.name(*caller), *keys as u64)).collect();
        if !rest.is_empty() {
            told.push((OTHERS.to_string(), rest.iter().map(|(_, keys)| *keys as u64).sum()));
        }
        told
    }

    /// A token that is gone from its file leaves its keys until they are over; then the number stands for its name.
    fn name(&self, caller: u32) -> String {
        let file = self.tokens.as_ref().map(LiveTokens::file);
        let names = file.iter().flat_map(|file| file.principals()).map(|one| &**one.name());
        let named = names.chain([""]).find(|name| self.secret.caller(name) == caller);
        match named {
            Some("") => EVERYBODY.to_string(),
            Some(name) => name.to_string(),
            None => format!("gone-{caller:08x}"),
        }
    }

    /// Looks at what each caller has of `max` keys; returns the names of those that it warns of. One caller alone may have all, so
    /// only the alarm of the whole table counts for it.
    pub(crate) fn look(&mut self, kept: &[(u32, usize)], max: usize) -> Vec<String> {
        let half = max.div_ceil(2);
        let is_above = |keys: usize, percent: usize| keys * 100 >= half.saturating_mul(percent);
        let calm = |caller: &u32| {
            let own = kept.iter().find(|(other, _)| other == caller);
            !own.is_some_and(|(_, keys)| is_above(*keys, CALM_PERCENT))
        };
        self.warned.retain(|caller| !calm(caller));
        if kept.len() < 2 {
            return Vec::new();
        }
        let near = kept.iter().take_while(|(_, keys)| is_above(*keys, WARN_PERCENT));
        let new: Vec<(u32, usize)> =
            near.filter(|(caller, _)| !self.warned.contains(caller)).copied().collect();
        new.into_iter().map(|(caller, keys)| self.warn(caller, keys, half)).collect()
    }

    fn warn(&mut self, caller: u32, keys: usize, half: usize) -> String {
        self.warned.insert(caller);
        let name = self.name(caller);
        tracing::warn!(
            caller = name,
            keys,
            most = half,
            "a caller has {WARN_PERCENT} % of the Idempotency-Keys that one may have beside others, half of spend.keys_max; at the end \
             its reserves and spends with new keys are refused: raise spend.keys_max, or lower spend.keys_keep_s"
        );
        name
    }
}

#[cfg(test)]
mod tests {
    use access::TokenFile;

    use super::*;

    fn callers() -> (Callers, impl Fn(&str) -> u32) {
        let secret = KeySecret::new([3; 16]);
        let file = "shop spend aaaaaaaaaaaaaaaa\nllm spend bbbbbbbbbbbbbbbb\n";
        let tokens = LiveTokens::new(TokenFile::parse(file).unwrap());
        (Callers::new(secret.clone(), Some(tokens)), move |name| secret.caller(name))
    }

    #[test]
    fn callers_have_the_names_of_their_tokens_and_the_rest_is_a_sum() {
        let (callers, number) = callers();
        let told = callers.told(&[(number("llm"), 9), (number("left"), 5), (number(""), 1)]);
        let gone = format!("gone-{:08x}", number("left"));
        assert_eq!(told, [("llm".into(), 9), (gone, 5), ("everybody".into(), 1)]);
        let many: Vec<(u32, usize)> = (0..20).map(|caller| (caller, 2)).collect();
        let told = callers.told(&many);
        assert_eq!((told.len(), told.last().unwrap()), (17, &("others".to_string(), 8)));
    }

    #[test]
    fn a_caller_is_warned_of_once_until_it_is_calm_again() {
        let (mut callers, number) = callers();
        let (shop, llm) = (number("shop"), number("llm"));
        let mut look = |keys: usize, others: usize| {
            let kept: Vec<(u32, usize)> =
                [(shop, keys), (llm, others)].into_iter().filter(|(_, keys)| *keys > 0).collect();
            callers.look(&kept, 1_000)
        };
        assert_eq!(look(399, 1), Vec::<String>::new());
        assert_eq!(look(450, 0), Vec::<String>::new(), "alone it may have all");
        assert_eq!(look(400, 1), ["shop"]);
        assert_eq!(look(480, 1), Vec::<String>::new());
        assert_eq!(look(360, 1), Vec::<String>::new());
        assert_eq!(look(420, 1), Vec::<String>::new(), "it was never calm");
        assert_eq!(look(349, 1), Vec::<String>::new());
        assert_eq!(look(400, 1), ["shop"]);
    }
}
