//! Budget templates: lines of the budgets file from which budgets are made on their first ask.
//!
//! `llm/{team}/{user}` is a pattern of segments between slashes: a literal text, or one `{name}` that stands for one or more
//! characters except the slash, with literal text before and behind it if there is any. Of two patterns that match a handle the
//! more literal one wins, decided by the first segment that is a literal in one of them only; where none is, the file is refused.

use ledger::spec::LEVELS_MAX;
use ledger::{Amount, BudgetSpec, Status, Windows};
use money::{Unit, Zone, ZoneCache};
use serde_json::{Map, Value};
use wire::Handle;

use crate::alerts::{self, Shares};
use crate::budgets::{ON_EXPIRY, STATUSES, bound, read_unit, up_to, zone};
use crate::campaigns::fields::{Faults, Object, shown, text, whole_number, word};
use crate::windows;

/// Templates that a file may have.
pub const TEMPLATES_MAX: usize = 256;

/// The fields of a template.
pub const TEMPLATE_FIELDS: [&str; 13] = [
    "template",
    "unit",
    "limit",
    "daily",
    "windows",
    "tz",
    "parent",
    "idle",
    "status",
    "on_expiry",
    "tolerance_ppm",
    "late_reserve_bp",
    "alerts",
];

/// Without `idle`: a day.
const IDLE_MS: u64 = 86_400_000;
/// Shortest and longest `idle`: a second, and 366 days.
const IDLE_RANGE_MS: std::ops::RangeInclusive<u64> = 1_000..=366 * 86_400_000;
/// Longest name in a pattern, in bytes.
const NAME_BYTES_MAX: usize = 32;

/// One part of a pattern, between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// One or more characters, but for those around them.
    Named {
        before: String,
        name: String,
        behind: String,
    },
}

impl Segment {
    fn parse(text: &str) -> Result<Segment, String> {
        let Some((before, rest)) = text.split_once('{') else {
            literal(text)?;
            return match text.is_empty() {
                true => Err("an empty segment between slashes; expected text or a {name}".into()),
                false => Ok(Segment::Literal(text.into())),
            };
        };
        let (name, behind) = rest
            .split_once('}')
            .ok_or_else(|| format!("found {text:?}, expected a closing brace behind the name"))?;
        let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(sound) {
            return Err(format!(
                "found {{{name}}}, expected a name of 1 to {NAME_BYTES_MAX} of a-z 0-9 _ in braces"
            ));
        }
        if behind.contains('{') {
            return Err(format!("found {text:?}, expected at most one {{name}} between slashes"));
        }
        literal(before)?;
        literal(behind)?;
        Ok(Segment::Named { before: before.into(), name: name.into(), behind: behind.into() })
    }

    /// What its name stands for in a segment of a handle; empty for a literal. `None`: it does not match.
    fn value<'t>(&self, segment: &'t str) -> Option<&'t str> {
        match self {
            Segment::Literal(literal) => (literal == segment).then_some(""),
            Segment::Named { before, behind, .. } => {
                let value = segment.strip_prefix(before.as_str())?.strip_suffix(behind.as_str())?;
                (!value.is_empty()).then_some(value)
            }
        }
    }

    /// Can one text match both?
    fn meets(&self, other: &Segment) -> bool {
        match (self, other) {
            (Segment::Literal(one), other) | (other, Segment::Literal(one)) => {
                other.value(one).is_some()
            }
            (
                Segment::Named { before: b1, behind: e1, .. },
                Segment::Named { before: b2, behind: e2, .. },
            ) => {
                (b1.starts_with(b2.as_str()) || b2.starts_with(b1.as_str()))
                    && (e1.ends_with(e2.as_str()) || e2.ends_with(e1.as_str()))
            }
        }
    }

    fn is_named(&self) -> bool {
        matches!(self, Segment::Named { .. })
    }
}

/// Only what a handle may consist of.
fn literal(text: &str) -> Result<(), String> {
    // With a letter in front, digits alone are a sound part too.
    match text.is_empty() {
        true => Ok(()),
        false => match Handle::parse(&format!("x{text}")) {
            Ok(_) if !text.contains('/') => Ok(()),
            _ => Err(format!("found {text:?}, expected characters of A-Z a-z 0-9 . _ : @ -")),
        },
    }
}

/// A text with names in it, which matches handles or makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
}

impl Pattern {
    /// A pattern from its text.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text.len() > 2 * wire::HANDLE_BYTES_MAX {
            return Err(format!(
                "a pattern of {} bytes, expected at most {}",
                text.len(),
                2 * wire::HANDLE_BYTES_MAX
            ));
        }
        let segments = text.split('/').map(Segment::parse).collect::<Result<Vec<_>, _>>()?;
        let pattern = Pattern { text: text.into(), segments };
        let names: Vec<&str> = pattern.names().collect();
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(format!("{{{name}}} stands there twice; expected each name once"));
            }
        }
        Ok(pattern)
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Named { name, .. } => Some(name.as_str()),
            Segment::Literal(_) => None,
        })
    }

    /// Does it match this handle?
    #[must_use]
    pub fn matches(&self, handle: &str) -> bool {
        let mut rest = handle.split('/');
        self.segments.iter().all(|segment| rest.next().is_some_and(|t| segment.value(t).is_some()))
            && rest.next().is_none()
    }

    /// What a name stands for in a handle that matches.
    fn value_of<'t>(&self, name: &str, handle: &'t str) -> Option<&'t str> {
        let pairs = self.segments.iter().zip(handle.split('/'));
        let mut found = pairs.filter_map(|(segment, text)| match segment {
            Segment::Named { name: own, .. } if own == name => segment.value(text),
            _ => None,
        });
        found.next()
    }

    /// The text with what `value` says for each name.
    fn fill<'t>(&self, value: impl Fn(&str) -> Option<&'t str>) -> Option<String> {
        let mut filled = String::with_capacity(self.text.len() + 16);
        for (index, segment) in self.segments.iter().enumerate() {
            if index > 0 {
                filled.push('/');
            }
            match segment {
                Segment::Literal(literal) => filled.push_str(literal),
                Segment::Named { before, name, behind } => {
                    filled.push_str(before);
                    filled.push_str(value(name)?);
                    filled.push_str(behind);
                }
            }
        }
        Some(filled)
    }

    /// Can one handle match both?
    fn meets(&self, other: &Pattern) -> bool {
        self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|(one, other)| one.meets(other))
    }

    /// Less is more literal: by the first segment that differs.
    fn rank(&self) -> impl Iterator<Item = bool> + '_ {
        self.segments.iter().map(Segment::is_named)
    }
}

/// What the parent of a budget is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentName {
    /// A budget of the file.
    Id(u64),
    /// A budget of the file by its handle, or one that is made from its own template.
    Handle(Pattern),
}

/// A line from which budgets are made.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The handles of its budgets.
    pub pattern: Pattern,
    /// The budget that binds its budgets too.
    pub parent: Option<ParentName>,
    /// Its budgets, but for id, handle and parent.
    spec: BudgetSpec,
    /// At which shares of their limits its budgets alert.
    pub alerts: Shares,
    /// The line it stands on, from 1.
    pub line: usize,
}

impl Template {
    /// The handle, or the id, of the parent of the budget with this handle, which has to match. `None` without a parent.
    ///
    /// # Errors
    /// The parent's name would be no handle: it is too long, or of digits alone.
    pub fn parent_of(&self, handle: &str) -> Result<Option<Parent>, wire::HandleError> {
        match &self.parent {
            None => Ok(None),
            Some(ParentName::Id(id)) => Ok(Some(Parent::Id(*id))),
            Some(ParentName::Handle(pattern)) => {
                let filled = pattern.fill(|name| self.pattern.value_of(name, handle));
                Handle::parse(&filled.unwrap_or_default())
                    .map(|parent| Some(Parent::Handle(parent)))
            }
        }
    }

    /// A budget of the template. The id and the parent are the bank's to choose.
    #[must_use]
    pub fn budget(&self, handle: Handle, parent: Option<u64>) -> BudgetSpec {
        BudgetSpec { handle: Some(handle), parent, ..self.spec.clone() }
    }

    /// Unit of its budgets.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.spec.unit
    }
}

/// The parent of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// By its id.
    Id(u64),
    /// By its handle.
    Handle(Handle),
}

/// All templates of a file, those that are more literal first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Templates(Vec<Template>);

impl Templates {
    /// The template that the budget with this handle is made from.
    #[must_use]
    pub fn of(&self, handle: &str) -> Option<&Template> {
        self.0.iter().find(|template| template.pattern.matches(handle))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.0.iter()
    }

    /// Has the file none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the templates of a file in order and checks them with its budgets; errors have the line they are about.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(
        mut all: Vec<Template>,
        budgets: &[BudgetSpec],
    ) -> Result<Templates, Vec<(usize, String)>> {
        all.sort_by(|a, b| a.pattern.rank().cmp(b.pattern.rank()).then(a.line.cmp(&b.line)));
        let mut errors = Vec::new();
        if let Some(over) = all.get(TEMPLATES_MAX) {
            let text = format!("{} templates, expected at most {TEMPLATES_MAX}", all.len());
            errors.push((over.line, text));
        }
        for (index, one) in all.iter().enumerate().take(TEMPLATES_MAX) {
            let earlier = all[..index].iter().find(|other| {
                one.pattern.meets(&other.pattern) && one.pattern.rank().eq(other.pattern.rank())
            });
            if let Some(other) = earlier {
                errors.push((
                    one.line,
                    format!(
                        "template {:?} can match a handle that {:?} of line {} matches too; expected one of them to have a literal text where the other has a name",
                        one.pattern.text, other.pattern.text, other.line
                    ),
                ));
            }
        }
        let templates = Templates(all);
        for template in templates.iter() {
            if let Err(text) = templates.check_parents(template, budgets) {
                errors.push((template.line, text));
            }
        }
        if errors.is_empty() { Ok(templates) } else { Err(errors) }
    }

    /// Follows the parents of a made-up budget of the template.
    fn check_parents(&self, template: &Template, budgets: &[BudgetSpec]) -> Result<(), String> {
        let mut level = template;
        let mut handle = level.pattern.fill(|_| Some("x")).unwrap_or_default();
        for _ in 1..LEVELS_MAX {
            let parent = level.parent_of(&handle).map_err(|error| format!("parent: {error}"))?;
            let fixed = match &parent {
                None => return Ok(()),
                Some(Parent::Id(id)) => budgets.iter().find(|budget| budget.id == *id),
                Some(Parent::Handle(name)) => {
                    budgets.iter().find(|budget| budget.handle.as_ref() == Some(name))
                }
            };
            let above = match (parent, fixed) {
                (_, Some(budget)) => return check_unit(level, budget.unit, &budget.id.to_string()),
                (Some(Parent::Handle(name)), None) => {
                    let above = self.of(name.as_str()).ok_or_else(|| {
                        format!(
                            "parent: {name} is no budget of this file, and no template matches it"
                        )
                    })?;
                    handle = name.to_string();
                    above
                }
                (Some(Parent::Id(id)), None) => {
                    return Err(format!("parent: {id} is not a budget of this file"));
                }
                (None, None) => return Ok(()),
            };
            check_unit(level, above.unit(), &handle)?;
            level = above;
        }
        match level.parent {
            None => Ok(()),
            Some(_) => {
                Err(format!("parent: more than {LEVELS_MAX} levels of parents, or a circle"))
            }
        }
    }
}

fn check_unit(level: &Template, above: Unit, parent: &str) -> Result<(), String> {
    let unit = level.unit();
    match unit == above {
        true => Ok(()),
        false => Err(format!("unit: found {unit}, expected {above} of the parent {parent}")),
    }
}

/// A template from its line; every error at once.
pub(crate) fn template(
    line: usize,
    fields: &Map<String, Value>,
    zones: &mut ZoneCache,
) -> Result<Template, Vec<String>> {
    let mut faults = Faults::default();
    let mut object = Object::new(fields, &[&TEMPLATE_FIELDS], &mut faults);
    let template = read_template(line, &mut object, zones);
    template.filter(|_| faults.is_empty()).ok_or_else(|| faults.into_texts())
}

fn read_template(
    line: usize,
    object: &mut Object<'_, '_>,
    zones: &mut ZoneCache,
) -> Option<Template> {
    let pattern = object.required("template", pattern);
    let unit = read_unit(object);
    let limit = object.optional("limit", |value| bound(value, unit));
    let daily = object.optional("daily", |value| bound(value, unit));
    let windows =
        object.optional("windows", |value| windows::read(value, unit)).unwrap_or_default();
    let daily = windows::join_day(object, daily, &windows)?;
    let windows = Windows::daily(daily).all().iter().copied().fold(windows, Windows::with);
    let zone = object.optional("tz", |value| zone(value, zones)).unwrap_or_else(Zone::utc);
    let parent = object.optional("parent", parent_name);
    let idle_ms = object.optional("idle", idle).unwrap_or(IDLE_MS);
    let status = object.optional("status", |value| word(value, &STATUSES));
    let on_expiry = object.optional("on_expiry", |value| word(value, &ON_EXPIRY));
    let tolerance_ppm = object.optional("tolerance_ppm", |value| up_to(value, 1_000_000));
    let late_reserve_bp = object.optional("late_reserve_bp", |value| up_to(value, 10_000));
    let alerts = object.optional("alerts", alerts::read).unwrap_or_default();
    if limit.is_none() && windows.all().is_empty() && object.is_sound() {
        object.fault_here(
            "limit: missing; a template needs a limit, or a window such as `daily` or `windows`",
        );
    }
    if let (Some(ParentName::Handle(parent)), Some(pattern)) = (&parent, &pattern)
        && let Some(name) = parent.names().find(|name| !pattern.names().any(|own| own == *name))
    {
        object.fault("parent", format!("{{{name}}} is no name of the template"));
    }
    let pattern = pattern.filter(|_| object.is_sound())?;
    let spec = BudgetSpec {
        windows,
        zone,
        status: status.unwrap_or(Status::Active),
        on_expiry: on_expiry.unwrap_or_default(),
        tolerance_ppm: tolerance_ppm.unwrap_or(0),
        late_reserve_bp: u16::try_from(late_reserve_bp.unwrap_or(0)).unwrap_or(u16::MAX),
        idle_ms,
        ..BudgetSpec::plain(0, unit, limit.unwrap_or(NO_LIMIT))
    };
    Some(Template { pattern, parent, spec, alerts, line })
}

/// The limit for life of a budget whose template has none.
const NO_LIMIT: Amount = money::LIMIT_MAX;

fn pattern(value: &Value) -> Result<Pattern, String> {
    let written = value.as_str().ok_or_else(|| {
        format!("found {}, expected a pattern such as \"llm/{{team}}/{{user}}\"", shown(value))
    })?;
    let pattern = Pattern::parse(written)?;
    let is_named = pattern.names().next().is_some();
    match is_named {
        true => Ok(pattern),
        false => Err(format!(
            "found {}, expected at least one {{name}}; one budget is a line of its own",
            shown(value)
        )),
    }
}

fn parent_name(value: &Value) -> Result<ParentName, String> {
    if let Ok(id) = whole_number(value) {
        return Ok(ParentName::Id(id));
    }
    let written = value.as_str().ok_or_else(|| {
        format!(
            "found {}, expected an id, a handle, or a pattern such as \"llm/{{team}}\"",
            shown(value)
        )
    })?;
    Pattern::parse(written).map(ParentName::Handle)
}

/// A time such as `90s`, `30m`, `24h` or `7d`, in ms.
fn idle(value: &Value) -> Result<u64, String> {
    let read = |written: &str| {
        let (number, unit) = written.split_at_checked(written.len().checked_sub(1)?)?;
        let unit_ms = match unit {
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number = number.parse::<u64>().ok().filter(|_| !number.starts_with('+'))?;
        number.checked_mul(unit_ms).filter(|ms| IDLE_RANGE_MS.contains(ms))
    };
    text(value, "a time from \"1s\" to \"366d\", such as \"90s\", \"30m\", \"24h\"", read)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::budgets;

    fn read(lines: &str) -> Result<Templates, Vec<String>> {
        let path = Path::new("f.jsonl");
        let file = budgets::file_of(path, lines.as_bytes());
        let told = |errors: Vec<budgets::LineError>| {
            errors.iter().map(|error| format!("{}: {}", error.line, error.text)).collect()
        };
        file.map(|file| file.templates).map_err(told)
    }

    #[test]
    fn a_budget_of_a_template_has_its_fields_and_its_parents_name() {
        let templates = read(
            r#"{"id":7,"limit":"1000"}
{"template":"llm/{team}","limit":"100","parent":7}
{"template":"llm/{team}/u-{user}@x","unit":"USD","limit":"10","daily":"1","tz":"Europe/Paris","parent":"llm/{team}","idle":"90s","on_expiry":"release"}"#,
        )
        .unwrap();
        let template = templates.of("llm/a/u-bob@x").unwrap();
        let parent = template.parent_of("llm/a/u-bob@x").unwrap().unwrap();
        assert_eq!(parent, Parent::Handle(Handle::parse("llm/a").unwrap()));
        let handle = Handle::parse("llm/a/u-bob@x").unwrap();
        let budget = template.budget(handle.clone(), Some(9));
        assert_eq!((budget.handle, budget.parent, budget.idle_ms), (Some(handle), Some(9), 90_000));
        assert_eq!(budget.limit, Amount::new(10_000_000));
        assert_eq!(budget.windows, Windows::daily(Some(Amount::new(1_000_000))));
        let above = templates.of("llm/a").unwrap();
        assert_eq!(above.parent_of("llm/a").unwrap(), Some(Parent::Id(7)));
        assert_eq!(above.budget(Handle::parse("llm/a").unwrap(), Some(7)).idle_ms, IDLE_MS);
        for none in ["llm", "llm/", "llm//u-b@x", "llm/a/u-@x", "llm/a/bob", "llm/a/u-b@x/c", "x/a"]
        {
            assert!(templates.of(none).is_none(), "{none}");
        }
    }

    #[test]
    fn the_more_literal_template_wins_wherever_it_stands() {
        let templates = read(
            r#"{"template":"llm/{team}/{user}","limit":"1"}
{"template":"llm/admin/{user}","limit":"2"}
{"template":"llm/{team}/root","limit":"3"}"#,
        )
        .unwrap();
        let line = |handle: &str| templates.of(handle).unwrap().line;
        assert_eq!(
            ["llm/a/b", "llm/admin/b", "llm/a/root", "llm/admin/root"].map(line),
            [1, 2, 3, 2]
        );
    }

    #[test]
    fn a_template_without_a_limit_has_windows_only() {
        let templates = read(r#"{"template":"a/{b}","daily":"5"}"#).unwrap();
        let budget = templates.of("a/b").unwrap().budget(Handle::parse("a/b").unwrap(), None);
        assert_eq!(budget.limit, money::LIMIT_MAX);
    }

    #[test]
    fn every_bad_template_is_told_with_its_line() {
        let text = r#"{"id":1,"limit":"1","unit":"count"}
{"template":"a/{b}/{b}","limit":"1"}
{"template":"fixed","limit":"1"}
{"template":"c/{d","limit":"1"}
{"template":"c//{d}","limit":"1"}
{"template":"c/{D}","limit":"1"}
{"template":"c/{d}{e}","limit":"1"}
{"template":"c d/{e}","limit":"1"}
{"template":"f/{g}"}
{"template":"h/{i}","limit":"1","parent":"h/{j}"}
{"template":"k/{l}","limit":"1","idle":"0s"}
{"template":"m/{n}","limit":"1","colour":"red"}
{"template":5,"limit":"1"}"#;
        let errors = read(text).unwrap_err();
        for expected in [
            "2: template: {b} stands there twice",
            "3: template: found \"fixed\", expected at least one {name}",
            "4: template: found \"{d\", expected a closing brace",
            "5: template: an empty segment",
            "6: template: found {D}, expected a name of 1 to 32",
            "7: template: found \"{d}{e}\", expected at most one {name}",
            "8: template: found \"c d\", expected characters of",
            "9: limit: missing",
            "10: parent: {j} is no name of the template",
            "11: idle: found \"0s\", expected a time from",
            "12: colour: there is no such field",
            "13: template: found 5, expected a pattern",
        ] {
            assert!(
                errors.iter().any(|e| e.starts_with(expected)),
                "{expected} not in {errors:#?}"
            );
        }
        assert_eq!(errors.len(), 12, "{errors:#?}");
    }

    #[test]
    fn templates_are_checked_with_each_other_and_with_the_budgets() {
        for (lines, expected) in [
            (
                r#"{"template":"a/{b}","limit":"1"}
{"template":"a/{c}","limit":"1"}"#,
                "2: template \"a/{c}\" can match a handle that \"a/{b}\" of line 1 matches too",
            ),
            (
                r#"{"template":"a/x{b}","limit":"1"}
{"template":"a/{c}y","limit":"1"}"#,
                "2: template \"a/{c}y\" can match",
            ),
            (r#"{"template":"a/{b}","limit":"1","parent":3}"#, "1: parent: 3 is not a budget"),
            (r#"{"template":"a/{b}","limit":"1","parent":"z"}"#, "1: parent: z is no budget"),
            (
                r#"{"template":"a/{b}","limit":"1","parent":"a/{b}"}"#,
                "1: parent: more than 4 levels of parents, or a circle",
            ),
            (
                r#"{"id":1,"limit":"1","unit":"count"}
{"template":"a/{b}","limit":"1","parent":1}"#,
                "2: unit: found USD, expected count of the parent 1",
            ),
        ] {
            let errors = read(lines).unwrap_err();
            assert!(errors[0].starts_with(expected), "{expected} not in {errors:#?}");
        }
        // Affixes that exclude each other are no overlap.
        assert!(read("{\"template\":\"a/x-{b}\",\"limit\":\"1\"}\n{\"template\":\"a/y-{b}\",\"limit\":\"1\"}").is_ok());
        let many = |count: usize| -> String {
            (0..count)
                .map(|i| format!("{{\"template\":\"t{i}/{{x}}\",\"limit\":\"1\"}}\n"))
                .collect()
        };
        assert!(read(&many(TEMPLATES_MAX)).is_ok());
        assert!(read(&many(TEMPLATES_MAX + 1)).unwrap_err()[0].contains("257 templates"));
    }

    proptest! {
        /// A handle made from a pattern matches it and gives the values back.
        #[test]
        fn a_filled_pattern_matches(team in "[A-Za-z0-9._:@-]{1,20}", user in "[A-Za-z0-9._:@-]{1,20}") {
            let pattern = Pattern::parse("llm/{team}/u-{user}.x").unwrap();
            let handle = pattern.fill(|name| Some(if name == "team" { team.as_str() } else { user.as_str() })).unwrap();
            prop_assert!(pattern.matches(&handle));
            prop_assert_eq!(pattern.value_of("team", &handle), Some(team.as_str()));
            prop_assert_eq!(pattern.value_of("user", &handle), Some(user.as_str()));
        }

        /// No text makes it panic.
        #[test]
        fn any_text_is_judged(text in "[a-c{}/x]{0,24}", handle in "[a-c/x]{0,16}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                let _ = pattern.matches(&handle);
            }
        }
    }
}
