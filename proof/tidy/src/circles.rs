//! Circles of files: files of one crate that cannot be read one after the other, because each imports from the next.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::tree::{Source, Tree, is_test};

/// A module's path below the crate's root, and the file that it stands in.
type Modules<'a> = BTreeMap<Vec<String>, &'a str>;
/// A file, and those that it imports from.
type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The circles of a crate: its strongly connected sets of two or more files, each sorted. An import is a path that begins with `crate`,
/// `super`, `self` or a module beside it, in a `use` or anywhere else; it leads to the file of the deepest module that it names.
///
/// The root (`lib.rs`, `main.rs`) is in no circle: it declares every module and exports their names, and modules that take a name from there
/// need what defines it, not the root. With it, most crates would be one circle.
pub fn circles(tree: &Tree, crate_folder: &str) -> Vec<Vec<String>> {
    let files = tree.sources.iter().filter(|source| source.crate_folder == crate_folder);
    let files: Vec<&Source> = files.filter(|source| source.is_product()).collect();
    let modules: Modules<'_> = files.iter().map(|source| (module(source), &*source.file)).collect();
    let mut imports = Imports::new();
    for source in files {
        let (found, path) = (BTreeSet::new(), module(source));
        let mut finder = ImportFinder { modules: &modules, path, found };
        finder.visit_file(&source.syntax);
        finder.found.remove(&*source.file);
        imports.insert(&source.file, finder.found);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reach(&imports, file))).collect();
    let circle = |(file, there): (&&str, &BTreeSet<&str>)| {
        let both = there.iter().filter(|other| reached[**other].contains(file));
        both.map(ToString::to_string).collect::<Vec<_>>()
    };
    let circles: BTreeSet<Vec<String>> = reached.iter().map(circle).collect();
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

/// `src/bank/mod.rs` and `src/bank.rs` are the module `bank`.
fn module(source: &Source) -> Vec<String> {
    let inside = source.file.split_once("/src/").map_or(&*source.file, |(_, inside)| inside);
    let mut path: Vec<String> =
        inside.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
        path.pop();
    }
    path
}

/// All files that an import, or an import of an import, leads to.
fn reach<'a>(imports: &Imports<'a>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(imports[file].iter().filter(|other| found.insert(**other)));
    }
    found
}

struct ImportFinder<'a> {
    modules: &'a Modules<'a>,
    /// The module that is being read.
    path: Vec<String>,
    found: BTreeSet<&'a str>,
}

impl ImportFinder<'_> {
    fn import(&mut self, named: &[String]) {
        let mut whole = self.path.clone();
        let mut rest = named;
        match named.first().map(String::as_str) {
            Some("crate") => whole.clear(),
            Some("super" | "self") => {}
            Some(first) => {
                whole.push(first.to_string());
                if !self.modules.contains_key(&whole) {
                    return;
                }
                whole.pop();
            }
            None => return,
        }
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => _ = whole.pop(),
                _ => break,
            }
            rest = behind;
        }
        whole.extend_from_slice(rest);
        while !whole.is_empty() && !self.modules.contains_key(&whole) {
            whole.pop();
        }
        if !whole.is_empty() {
            self.found.extend(self.modules.get(&whole));
        }
    }

    fn uses(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.uses(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.uses(item, before));
            }
            syn::UseTree::Glob(_) => self.import(before),
            syn::UseTree::Name(syn::UseName { ident })
            | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                before.push(ident.to_string());
                self.import(before);
                before.pop();
            }
        }
    }
}

impl<'ast> Visit<'ast> for ImportFinder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Use(item) if !is_test(&item.attrs) => self.uses(&item.tree, &mut Vec::new()),
            syn::Item::Mod(item) if is_test(&item.attrs) => {}
            syn::Item::Fn(item) if is_test(&item.attrs) => {}
            syn::Item::Impl(item) if is_test(&item.attrs) => {}
            syn::Item::Mod(module) => {
                self.path.push(module.ident.to_string());
                visit::visit_item(self, item);
                self.path.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let named: Vec<String> = path.segments.iter().map(|one| one.ident.to_string()).collect();
        if named.len() > 1 {
            self.import(&named);
        }
        visit::visit_path(self, path);
    }
}
