//! Arrays of tables in `weir.toml`, such as `[[fix.session]]`: each kind of entry is defined once, with `entry!`, as the keys of sections
//! are, and has one line in the list of [`Arrays`]. What the entries of a door mean stands in a file of that door.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use crate::config::{ConfigError, KeyChange};
pub(crate) use crate::config::{outside, ranged, row, shown};
use crate::environment::distance;
pub use crate::fix_arrays::{FixSession, FixVenue};
pub use crate::openrtb_arrays::OpenRtbExchange;
use crate::values::Written;

/// A kind of entry.
pub trait Entry: Default {
    /// Its section.
    const SECTION: &'static str;
    /// Its array in the section.
    const ARRAY: &'static str;
    /// Its keys, each with `live` or `start`: whether it counts at once where the file is read again.
    const KEYS: &'static [(&'static str, &'static str)];
    /// Sets a key.
    fn set(&mut self, key: &str, written: &Written) -> Result<(), String>;
    /// Returns where it and its keys stand.
    fn places(&self) -> &EntryPlaces;
    /// The same, to be filled.
    fn places_mut(&mut self) -> &mut EntryPlaces;
    /// Returns the name by which it is known.
    fn known_as(&self) -> &str;
    /// Returns it as it stands in a file.
    fn print(&self) -> String;
    /// Returns it as an object.
    fn to_json(&self) -> Json;
    /// Returns its keys as rows of the table in docs/configuration.md.
    fn rows() -> String;
    /// Returns what is outside of its range, with the place of the entry.
    fn out_of_range(&self) -> Vec<ConfigError>;
}

/// Where an entry and its keys stand.
#[derive(Clone, Debug, Default)]
pub struct EntryPlaces {
    /// Its first line.
    entry: String,
    /// Those of its keys.
    keys: BTreeMap<String, String>,
    /// Keys that were told to be wrong when they were read.
    wrong: BTreeSet<String>,
}

impl EntryPlaces {
    #[cfg(test)]
    pub(crate) fn begun_at(entry: &str) -> EntryPlaces {
        EntryPlaces { entry: entry.to_owned(), ..EntryPlaces::default() }
    }

    /// Returns where a key stands, `file:line`; of one that is not set, the first line of the entry.
    #[must_use]
    pub fn of(&self, key: &str) -> &str {
        self.keys.get(key).unwrap_or(&self.entry)
    }

    /// Tells whether a key is set, to whatever.
    #[must_use]
    pub fn is_set(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Tells whether what the entry says of a key cannot be read, which was told.
    #[must_use]
    pub fn is_wrong(&self, key: &str) -> bool {
        self.wrong.contains(key)
    }
}

/// The key that was meant by one that there is not, if it is nearly one: `heart_bt_int` and `HeartBtInt`, too.
fn meant<E: Entry>(key: &str) -> Option<&'static str> {
    let bare = |key: &str| key.replace(['_', '-'], "").to_ascii_lowercase();
    let away = |known: &str| distance(&bare(key), &bare(known));
    let nearest = E::KEYS.iter().map(|(known, _)| (away(known), *known)).min()?;
    Some(nearest.1).filter(|known| nearest.0 <= 1 + known.len() / 6)
}

/// Says which key was meant, or which there are.
pub(crate) fn unknown<E: Entry>(key: &str) -> Result<(), String> {
    if let Some(meant) = meant::<E>(key) {
        return Err(format!("there is no such key; did you mean {meant}?"));
    }
    let known: Vec<&str> = E::KEYS.iter().map(|(key, _)| *key).collect();
    Err(format!("there is no such key; known here: {} (found {key:?})", known.join(", ")))
}

/// The mark of a key: `live` where it has none.
macro_rules! mark {
    () => {
        "live"
    };
    (start) => {
        "start"
    };
}
pub(crate) use mark;

/// Defines a kind of entry: its array, the key that it is known by (and the one in its place where that is empty), and its keys, each with
/// its default, perhaps its range, `start` where it counts from the next start on, and its meaning.
macro_rules! entry {
    ($(#[doc = $about:literal])* $vis:vis $name:ident = $section:ident . $array:ident by $known:ident $(or $instead:ident)? {
        $($key:ident: $type:ty = $default:expr, $([$range:expr],)? $($mark:ident,)? $doc:literal;)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            /// Where it and its keys stand.
            $vis places: $crate::arrays::EntryPlaces,
            $(#[doc = $doc] $vis $key: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { places: Default::default(), $($key: $default,)* }
            }
        }

        impl $crate::arrays::Entry for $name {
            const SECTION: &'static str = stringify!($section);
            const ARRAY: &'static str = stringify!($array);
            const KEYS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($key), $crate::arrays::mark!($($mark)?)),)*];

            fn set(&mut self, key: &str, written: &$crate::values::Written) -> Result<(), String> {
                match key {
                    $(stringify!($key) => {
                        let read = <$type as $crate::values::Value>::read(written);
                        let range = [$(std::ops::RangeInclusive::<u64>::from($range))?];
                        self.$key =
                            read.ok_or_else(|| $crate::values::wrong::<$type>(written, &range))?;
                        Ok(())
                    })*
                    _ => $crate::arrays::unknown::<$name>(key),
                }
            }

            fn places(&self) -> &$crate::arrays::EntryPlaces {
                &self.places
            }

            fn places_mut(&mut self) -> &mut $crate::arrays::EntryPlaces {
                &mut self.places
            }

            fn known_as(&self) -> &str {
                $(if self.$known.is_empty() { return &self.$instead; })?
                &self.$known
            }

            fn print(&self) -> String {
                let mut text = format!("[[{}.{}]]\n", Self::SECTION, Self::ARRAY);
                $(
                    let value = $crate::values::Value::print(&self.$key);
                    text += &format!("{} = {value}\n", stringify!($key));
                )*
                text
            }

            fn to_json(&self) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $(object.insert(stringify!($key).into(), $crate::arrays::shown(&self.$key, false));)*
                object.into()
            }

            fn rows() -> String {
                let (entry, mut text) = ($name::default(), String::new());
                let array = concat!(stringify!($section), ".", stringify!($array));
                $(
                    let range = [$(std::ops::RangeInclusive::<u64>::from($range))?];
                    let meaning = $crate::arrays::ranged($doc, range);
                    let mark = $crate::arrays::mark!($($mark)?);
                    text += &$crate::arrays::row(array, stringify!($key), &entry.$key, &meaning, mark);
                )*
                text
            }

            fn out_of_range(&self) -> Vec<$crate::config::ConfigError> {
                let found: [Option<(&str, String)>; 0] = [];
                found.into_iter()
                    $($(.chain([$crate::arrays::outside(
                        (concat!(stringify!($section), ".", stringify!($array)), stringify!($key)),
                        &self.$key,
                        &std::ops::RangeInclusive::<u64>::from($range),
                    ).map(|text| (stringify!($key), text))]))?)*
                    .flatten()
                    .map(|(key, text)| $crate::config::ConfigError {
                        place: self.places.of(key).to_owned(),
                        text,
                    })
                    .collect()
            }
        }
    };
}
pub(crate) use entry;

/// Defines a set of arrays out of a list: `arrays! { /// About. Arrays { /// About. fix_session: FixSession, } }`.
macro_rules! arrays {
    ($(#[doc = $about:literal])* $vis:vis $set:ident { $($(#[doc = $entries:literal])* $field:ident: $entry:ident,)+ }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default)]
        $vis struct $set {
            $($(#[doc = $entries])* $vis $field: Vec<$entry>,)+
        }

        impl $set {
            /// Every array, by its section and its name.
            const ALL: &'static [(&'static str, &'static str)] = &[$(($entry::SECTION, $entry::ARRAY)),+];

            /// Tells whether a section has an array of this name.
            pub(crate) fn has(section: &str, array: &str) -> bool {
                $set::ALL.contains(&(section, array))
            }

            /// The arrays of a section, as they are written.
            pub(crate) fn of_section(section: &str) -> impl Iterator<Item = String> {
                let of_it = $set::ALL.iter().filter(move |(of, _)| *of == section);
                of_it.map(|(section, array)| format!("[[{section}.{array}]]"))
            }

            /// All of them, each as a key would be written.
            pub(crate) fn names() -> impl Iterator<Item = String> {
                $set::ALL.iter().map(|(section, array)| format!("{section}.{array}"))
            }

            /// Adds an entry of an array that there [is](Self::has), with its keys, each with where it stands; every error of it goes to `push`.
            pub(crate) fn add<'t>(
                &mut self,
                of: (&str, &str),
                (at, place_of): (usize, &impl Fn(usize) -> String),
                keys: impl Iterator<Item = (&'t str, usize, Written)>,
                push: &mut impl FnMut(usize, String),
            ) {
                $(if of == ($entry::SECTION, $entry::ARRAY) {
                    return self.$field.push(read((at, place_of), keys, push));
                })+
                unreachable!("it was asked whether there is such an array")
            }

            /// Returns all entries as they stand in a file.
            pub(crate) fn print(&self) -> String {
                [$(printed(&self.$field)),+].concat()
            }

            /// Returns the keys of all kinds of entries as rows of a table.
            pub(crate) fn rows() -> String {
                [$($entry::rows()),+].concat()
            }

            /// Returns what another configuration has otherwise: entries that are there in one of them only, and the keys of the others.
            #[must_use]
            $vis fn changes(&self, other: &$set) -> Vec<KeyChange> {
                [$(changed(&self.$field, &other.$field)),+].concat()
            }

            /// Puts the entries into the configuration as JSON.
            pub(crate) fn to_json(&self, all: &mut Map<String, Json>) {
                $(
                    let section = all.entry($entry::SECTION).or_insert_with(|| json!({}));
                    section[$entry::ARRAY] = self.$field.iter().map(Entry::to_json).collect();
                )+
            }

            /// Returns what is outside of its range.
            pub(crate) fn out_of_range(&self) -> Vec<ConfigError> {
                [$(self.$field.iter().flat_map(Entry::out_of_range).collect::<Vec<_>>()),+].concat()
            }
        }
    };
}

arrays! {
    /// The arrays of a configuration.
    pub Arrays {
        /// Clients' sessions of the FIX door, in the order of the file.
        fix_session: FixSession,
        /// Its venues, in the order of the file.
        fix_venue: FixVenue,
        /// Exchanges of the OpenRTB door beside the one that its section is, in the order of the file.
        openrtb_exchange: OpenRtbExchange,
    }
}

fn printed<E: Entry>(entries: &[E]) -> String {
    entries.iter().map(|entry| entry.print() + "\n").collect()
}

/// What of an array changed. Entries are the same as long as their names are, wherever they stand.
fn changed<E: Entry>(from: &[E], to: &[E]) -> Vec<KeyChange> {
    let array = format!("{}.{}", E::SECTION, E::ARRAY);
    let change = |key, is_live, from: &str, to: &str| KeyChange {
        key,
        is_live,
        from: from.to_owned(),
        to: to.to_owned(),
    };
    // An entry comes and goes while the node runs where all that it says counts at once.
    let is_live = |key: &str| E::KEYS.contains(&(key, "live"));
    let comes_live = E::KEYS.iter().all(|(_, mark)| *mark == "live");
    let find = |all: &'_ [E], name: &str| all.iter().position(|one| one.known_as() == name);
    let mut found = Vec::new();
    for entry in from {
        let name = entry.known_as();
        match find(to, name) {
            None => {
                found.push(change(format!("{array} {name}"), comes_live, "there", "not there"));
            }
            Some(at) => {
                let (before, after) = (entry.print(), to[at].print());
                let keys = before.lines().zip(after.lines()).filter(|(from, to)| from != to);
                found.extend(keys.filter_map(|(before, after)| {
                    let (key, before) = before.split_once(" = ")?;
                    let (_, after) = after.split_once(" = ")?;
                    Some(change(format!("{array}.{key} of {name}"), is_live(key), before, after))
                }));
            }
        }
    }
    let new = to.iter().map(E::known_as).filter(|name| find(from, name).is_none());
    found.extend(
        new.map(|name| change(format!("{array} {name}"), comes_live, "not there", "there")),
    );
    found
}

fn read<'t, E: Entry>(
    (at, place_of): (usize, &impl Fn(usize) -> String),
    keys: impl Iterator<Item = (&'t str, usize, Written)>,
    push: &mut impl FnMut(usize, String),
) -> E {
    let mut entry = E::default();
    entry.places_mut().entry = place_of(at);
    let keys: Vec<(&str, usize, Written)> = keys.collect();
    for (key, at, written) in &keys {
        let outcome = entry.set(key, written);
        let is_known = E::KEYS.iter().any(|(known, _)| known == key);
        let key_of = if is_known { Some(*key) } else { meant::<E>(key) };
        let is_beside = !is_known && keys.iter().any(|(other, ..)| Some(*other) == key_of);
        let places = entry.places_mut();
        places.keys.insert((*key).to_owned(), place_of(*at));
        if let Err(text) = outcome {
            let beside =
                if is_beside { " It is set beside this one; leave this one out." } else { "" };
            // Of the key that was meant nothing more has to be said, unless it is set itself.
            places.wrong.extend(key_of.filter(|_| !is_beside).map(str::to_owned));
            push(*at, format!("{}.{}.{key}: {text}{beside}", E::SECTION, E::ARRAY));
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    entry! {
        /// A shelf of a door that there is not.
        Shelf = planted.shelf by label {
            label: String = String::new(), " What it is called.";
            depth_mm: u32 = 300, [100..=900], " How deep it is.";
            wall: String = "north".into(), start, " Where it stands.";
        }
    }

    entry! {
        /// Another array of the same section, known by the other key.
        Basket = planted.basket by label or number {
            label: String = String::new(), " What it is called.";
            number: String = "1".into(), " What it is called without a label.";
        }
    }

    arrays! {
        /// What one line each makes of them.
        Planted {
            /// Shelves.
            planted_shelf: Shelf,
            /// Baskets.
            planted_basket: Basket,
        }
    }

    fn add(planted: &mut Planted, array: &str, keys: &[(&str, Written)]) -> Vec<(usize, String)> {
        let mut errors = Vec::new();
        let keys = keys.iter().enumerate().map(|(at, (key, value))| (*key, at, value.clone()));
        let place_of = |at| format!("weir.toml:{at}");
        let at = (planted.planted_shelf.len() * 10 + 1, &place_of);
        planted.add(("planted", array), at, keys, &mut |at, text| errors.push((at, text)));
        errors
    }

    fn text(text: &str) -> Written {
        Written::Text(text.to_owned())
    }

    #[test]
    fn one_line_makes_an_array_whose_keys_have_ranges_places_and_marks() {
        let mut planted = Planted::default();
        let (has, of) = (Planted::has("planted", "shelf"), Planted::of_section("planted"));
        assert!(has && !Planted::has("planted", "door") && !Planted::has("fix", "shelf"));
        assert_eq!(of.collect::<Vec<_>>(), ["[[planted.shelf]]", "[[planted.basket]]"]);
        assert_eq!(Planted::names().collect::<Vec<_>>(), ["planted.shelf", "planted.basket"]);
        assert_eq!(add(&mut planted, "shelf", &[("label", text("a"))]), []);
        let wrong = [("depth_mm", text("deep")), ("colour", text("red")), ("label", text("b"))];
        let errors = add(&mut planted, "shelf", &wrong);
        assert!(
            errors[0].0 == 0 && errors[0].1.starts_with("planted.shelf.depth_mm: "),
            "{errors:?}"
        );
        assert_eq!(
            errors[1].1,
            "planted.shelf.colour: there is no such key; known here: label, depth_mm, wall (found \"colour\")"
        );
        let nearly = [("dept_mm", text("x")), ("DepthMM", text("x")), ("wal", text("x"))];
        let errors = add(&mut planted, "shelf", &nearly);
        let meant = ["depth_mm", "depth_mm", "wall"].map(|key| format!("did you mean {key}?"));
        assert!(
            errors.iter().zip(&meant).all(|(told, meant)| told.1.ends_with(meant)),
            "{errors:?}"
        );
        let places = &planted.planted_shelf[2].places;
        assert!(
            places.is_wrong("depth_mm") && places.is_wrong("wall") && !places.is_wrong("label")
        );
        assert_eq!((places.of("wal"), places.of("label")), ("weir.toml:2", "weir.toml:21"));
        let deep = [("label", text("c")), ("depth_mm", Written::Integer(901))];
        assert_eq!(add(&mut planted, "shelf", &deep), []);
        let outside = planted.out_of_range();
        assert_eq!((outside.len(), &*outside[0].place), (1, "weir.toml:1"), "the line of the key");
        assert!(outside[0].text.contains("planted.shelf.depth_mm"), "{:?}", outside[0]);
        assert!(planted.print().contains("[[planted.shelf]]\nlabel = \"b\"\ndepth_mm = 300\n"));
        assert!(Planted::rows().contains("| start |") && Planted::rows().contains("| live |"));
        let mut json = Map::new();
        planted.to_json(&mut json);
        assert_eq!(json["planted"]["shelf"][0]["wall"], "north");
        assert_eq!(json["planted"]["basket"], json!([]));
    }

    #[test]
    fn what_changes_is_told_with_its_mark() {
        let mut before = Planted::default();
        assert_eq!(add(&mut before, "shelf", &[("label", text("a"))]), []);
        assert_eq!(add(&mut before, "basket", &[]), []);
        let mut after = before.clone();
        after.planted_shelf[0].depth_mm = 400;
        after.planted_shelf[0].wall = "south".to_owned();
        assert_eq!(add(&mut after, "shelf", &[("label", text("b"))]), []);
        after.planted_basket.clear();
        let found = before.changes(&after);
        let found: Vec<_> = found.iter().map(|one| (&*one.key, one.is_live)).collect();
        let expected = [
            ("planted.shelf.depth_mm of a", true),
            ("planted.shelf.wall of a", false),
            ("planted.shelf b", false),
            ("planted.basket 1", true),
        ];
        assert_eq!(found, expected);
    }
}
