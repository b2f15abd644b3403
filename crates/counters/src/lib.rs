//! What is counted: one definition per counter, from which `/stat`, `/v1/node`, `/metrics` and the documentation come.
//!
//! [`counters!`] makes a struct of counters out of their definitions: a name, what it means, and what differs from a sum of plain
//! numbers. Whoever counts adds to a field; whoever shows reads the definitions beside the values. So a new counter is one line, and
//! the place that counts it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number with one writer: a load and a store instead of a locked addition. Anybody reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// For its one writer: so many more.
    #[inline]
    pub fn add(&self, count: usize) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count as u64), Relaxed);
    }

    /// For its one writer: the value from now on.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// What a counter is kept in.
pub trait Cell {
    /// The value now.
    fn read(&self) -> u64;
}

impl Cell for Counter {
    fn read(&self) -> u64 {
        self.get()
    }
}

impl Cell for u64 {
    fn read(&self) -> u64 {
        *self
    }
}

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while the node lives.
    Sum,
    /// It goes up and down.
    Level,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// The unit's name; empty of plain numbers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
        }
    }
}

/// Where `/metrics` has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A family of its own, named after its place and name.
    Own,
    /// A family of its own with this name.
    Named(&'static str),
    /// A family that tells more than this counter does, and is written where that is known.
    Elsewhere(&'static str),
}

/// Something that should not happen: the code under which `/v1/node` and `weir_errors` count it, and where it is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The code. Of counters with labels: what stands before the label, if it ends with `_`, otherwise the code of their sum.
    pub code: &'static str,
    /// The page.
    pub page: &'static str,
}

/// What a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The object of `/stat` that has it: the door, as `doors.batch`, or another part of the node.
    pub place: &'static str,
    /// Its name there; a dot stands before what is an object of its own.
    pub name: &'static str,
    /// What it means, a sentence.
    pub help: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// Where `/metrics` has it.
    pub family: Family,
    /// It is several numbers, told apart by this.
    pub label: Option<&'static str>,
    /// It should stay 0.
    pub failing: Option<Failing>,
}

impl Definition {
    /// A sum of plain numbers, in a family of its own.
    #[must_use]
    pub const fn new(place: &'static str, name: &'static str, help: &'static str) -> Definition {
        Definition {
            place,
            name,
            help,
            kind: Kind::Sum,
            unit: Unit::Count,
            family: Family::Own,
            label: None,
            failing: None,
        }
    }

    /// Another name than its field's. A `*` in it stands for the label, which otherwise stands behind.
    #[must_use]
    pub const fn name(self, name: &'static str) -> Definition {
        Definition { name, ..self }
    }

    /// Another place than its neighbours'.
    #[must_use]
    pub const fn place(self, place: &'static str) -> Definition {
        Definition { place, ..self }
    }

    /// It goes up and down.
    #[must_use]
    pub const fn level(self) -> Definition {
        Definition { kind: Kind::Level, ..self }
    }

    /// It counts bytes.
    #[must_use]
    pub const fn bytes(self) -> Definition {
        Definition { unit: Unit::Bytes, ..self }
    }

    /// It counts nanoseconds.
    #[must_use]
    pub const fn nanoseconds(self) -> Definition {
        Definition { unit: Unit::Nanoseconds, ..self }
    }

    /// The name of its family in `/metrics`, with the unit.
    #[must_use]
    pub const fn family(self, name: &'static str) -> Definition {
        Definition { family: Family::Named(name), ..self }
    }

    /// The family of `/metrics` that tells it among others.
    #[must_use]
    pub const fn elsewhere(self, name: &'static str) -> Definition {
        Definition { family: Family::Elsewhere(name), ..self }
    }

    /// It is several numbers, told apart by a label.
    #[must_use]
    pub const fn by(self, label: &'static str) -> Definition {
        Definition { label: Some(label), ..self }
    }

    /// It should stay 0; see [`Failing`]. `weir_errors` tells it.
    #[must_use]
    pub const fn failing(self, code: &'static str, page: &'static str) -> Definition {
        Definition {
            failing: Some(Failing { code, page }),
            family: Family::Elsewhere("weir_errors"),
            ..self
        }
    }

    /// The name of its family in `/metrics`.
    #[must_use]
    pub fn family_name(&self) -> String {
        if let Family::Named(name) | Family::Elsewhere(name) = self.family {
            return name.to_string();
        }
        let place = self.place.rsplit('.').next().unwrap_or_default();
        let name = format!("weir_{place}_{}", self.name.replace('.', "_"));
        match self.unit {
            Unit::Bytes if !name.ends_with("_bytes") => format!("{name}_bytes"),
            _ => name,
        }
    }

    /// Its row of the table in the documentation; a family that is named by the rule is left out.
    #[must_use]
    pub fn row(&self) -> String {
        let is_last = self.label.is_some() && !self.name.contains('*');
        let (each, help) = (if is_last { ".*" } else { "" }, self.help);
        let family = match self.family {
            Family::Own => String::new(),
            Family::Named(name) | Family::Elsewhere(name) => format!("`{name}` "),
        };
        format!("| `{}.{}{each}` | {family}| {help} |\n", self.place, self.name)
    }
}

/// Makes a struct of counters out of their definitions. A row is the field, its meaning, and calls of [`Definition`]'s methods where
/// it is not a sum of plain numbers: `counters! { /// About. pub struct Counts of Counter, in "bank" { fills: "Grants made."; } }`.
/// Fields that are no counters stand in a block `also { .. }` behind it.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* $vis:vis struct $name:ident of $cell:ty, in $place:literal {
        $($field:ident: $help:literal $(, $method:ident($($arg:expr),*))*;)*
    } $(also { $($(#[$other_about:meta])* $other_vis:vis $other:ident: $other_type:ty,)* })?) => {
        $(#[$about])*
        $vis struct $name {
            $(#[doc = $help] $vis $field: $cell,)*
            $($($(#[$other_about])* $other_vis $other: $other_type,)*)?
        }

        impl $name {
            /// What each counter is.
            $vis const DEFINITIONS: &'static [$crate::Definition] = &[
                $($crate::Definition::new($place, stringify!($field), $help)$(.$method($($arg),*))*,)*
            ];

            /// What each counter is at now, in the order of the definitions.
            #[must_use]
            $vis fn values(&self) -> Vec<u64> {
                vec![$($crate::Cell::read(&self.$field)),*]
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        #[derive(Default)]
        struct Counted of Counter, in "doors.batch" {
            taken: "Things taken.";
            waiting: "Bytes that wait.", level(), bytes(), place("transport");
            lost: "Things lost.", failing("lost", "/docs/x.md"), name("lost.here");
        } also {
            other: bool,
        }
    }

    #[test]
    fn a_row_is_a_field_a_definition_and_a_value() {
        let counted = Counted { other: true, ..Counted::default() };
        counted.taken.add(2);
        counted.taken.add(1);
        counted.waiting.set(7);
        assert!(counted.other);
        assert_eq!(counted.values(), [3, 7, 0]);
        let [taken, waiting, lost] = Counted::DEFINITIONS else { panic!("three rows") };
        assert_eq!(*taken, Definition::new("doors.batch", "taken", "Things taken."));
        assert_eq!(
            (waiting.kind, waiting.unit, waiting.place),
            (Kind::Level, Unit::Bytes, "transport")
        );
        assert_eq!(lost.failing, Some(Failing { code: "lost", page: "/docs/x.md" }));
    }

    #[test]
    fn families_are_named_after_place_name_and_unit() {
        let of = |name| Definition::new("doors.batch", name, "Help.");
        let names = [
            of("taken").family_name(),
            of("reads.hot").bytes().family_name(),
            of("memory_bytes").bytes().family_name(),
            of("x").family("weir_y").family_name(),
            of("x").failing("x", "/docs/x.md").family_name(),
        ];
        let expected = [
            "weir_batch_taken",
            "weir_batch_reads_hot_bytes",
            "weir_batch_memory_bytes",
            "weir_y",
            "weir_errors",
        ];
        assert_eq!(names, expected);
        assert_eq!(of("x").by("why").row(), "| `doors.batch.x.*` | | Help. |\n");
        assert_eq!(of("x").family("y").row(), "| `doors.batch.x` | `y` | Help. |\n");
    }
}
