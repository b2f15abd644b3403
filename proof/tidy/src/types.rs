//! Two types of a crate never share a name; the doors of a crate are judged each for itself.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::tree::{Breach, Source, Tree, is_test};

/// Names of types, with the file and line of each place.
type Names = BTreeMap<String, Vec<(String, usize)>>;

/// Every second type, trait or alias of a name within the product part of one crate, or of one door's folder in it: every door may have its
/// `Desk`. Types inside functions count, those of tests do not.
pub fn doubled_types(tree: &Tree) -> Vec<Breach> {
    let mut scopes: BTreeMap<&str, Names> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| source.is_product()) {
        let names = scopes.entry(scope(source)).or_default();
        let mut finder = TypeFinder { file: &source.file, names };
        finder.visit_file(&source.syntax);
    }
    let mut breaches = Vec::new();
    for (name, places) in scopes.into_values().flatten() {
        let Some(((first, line), others)) = places.split_first() else { continue };
        let breach = |(file, at): &(String, usize)| Breach {
            file: file.clone(),
            line: *at,
            what: format!("`{name}` is a type of {first}:{line} too"),
        };
        breaches.extend(others.iter().map(breach));
    }
    breaches.sort();
    breaches
}

/// The folder within which names are unique.
fn scope(source: &Source) -> &str {
    const DOORS: &str = "/src/doors/";
    let door = source.file.split_once(DOORS).and_then(|(folder, rest)| {
        let (name, _) = rest.split_once('/')?;
        source.file.get(..folder.len() + DOORS.len() + name.len())
    });
    door.unwrap_or(&source.crate_folder)
}

struct TypeFinder<'a> {
    file: &'a str,
    names: &'a mut Names,
}

impl TypeFinder<'_> {
    fn add(&mut self, name: &syn::Ident) {
        let place = (self.file.to_string(), name.span().start().line);
        self.names.entry(name.to_string()).or_default().push(place);
    }
}

impl<'ast> Visit<'ast> for TypeFinder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Fn(item) => (&item.attrs, None),
            syn::Item::Impl(item) => (&item.attrs, None),
            _ => return,
        };
        if is_test(attributes) {
            return;
        }
        if let Some(name) = name {
            self.add(name);
        }
        visit::visit_item(self, item);
    }
}
