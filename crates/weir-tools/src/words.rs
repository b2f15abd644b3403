//! What the codes of statuses, auctions and verdicts mean, for people: one sentence a code, the same in `weir why` and in the
//! dashboard, which is generated from the same file.

/// One line a code: the code, a space, the sentence. `#` begins a comment.
const WORDS: &str = include_str!("../../../schema/words.txt");

/// What a code means, as a sentence without its full stop, of which the budget is the subject; the code itself where nobody
/// says.
#[must_use]
pub fn sentence(code: &str) -> &str {
    all().find(|(known, _)| *known == code).map_or(code, |(_, sentence)| sentence)
}

fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = WORDS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' '))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the page and the command show: a code of any kind that exists.
    fn codes() -> BTreeSet<&'static str> {
        let reasons = watch::model::Reason::ALL.iter().map(|reason| reason.word());
        let auction = gate_auction::Reason::ALL.iter().map(|reason| reason.name());
        let verdicts = (1..=31).filter_map(wire::Verdict::from_raw).map(|verdict| verdict.name());
        let all = reasons.chain(auction).chain(["bid", "outbid"]).chain(verdicts);
        all.filter(|code| *code != "none").collect()
    }

    #[test]
    fn every_code_has_one_sentence_and_every_sentence_a_code() {
        let told: Vec<&str> = all().map(|(code, _)| code).collect();
        assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), codes());
        assert_eq!(told.len(), codes().len(), "a code is told twice");
        for (code, sentence) in all() {
            assert!(!sentence.ends_with('.') && !sentence.is_empty(), "{code}: {sentence}");
        }
        assert_eq!(sentence("of_another_release"), "of_another_release");
    }

    #[test]
    fn no_two_codes_of_a_kind_mean_the_same() {
        let mut sentences: Vec<&str> = all().map(|(_, sentence)| sentence).collect();
        sentences.sort_unstable();
        sentences.dedup();
        assert_eq!(sentences.len(), all().count());
    }
}
