//! A function fits on a page.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::{Breach, Tree};

/// Lines of a function, from its first attribute-free line to its closing brace. TigerBeetle's limit.
pub const LINES_MAX: usize = 70;

/// Every function longer than [`LINES_MAX`], in tests too.
pub fn long_functions(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        let mut finder = FunctionFinder { file: &source.file, breaches: &mut breaches };
        finder.visit_file(&source.syntax);
    }
    breaches.sort();
    breaches
}

struct FunctionFinder<'a> {
    file: &'a str,
    breaches: &'a mut Vec<Breach>,
}

impl FunctionFinder<'_> {
    fn judge(&mut self, name: &syn::Ident, begin: Span, end: Span) {
        let line = begin.start().line;
        let lines = end.end().line + 1 - line;
        if lines > LINES_MAX {
            let what = format!("`{name}` has {lines} lines, {LINES_MAX} is the limit");
            self.breaches.push(Breach { file: self.file.to_string(), line, what });
        }
    }
}

impl<'ast> Visit<'ast> for FunctionFinder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.judge(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.judge(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.judge(&item.sig.ident, item.sig.span(), block.span());
        }
        visit::visit_trait_item_fn(self, item);
    }
}
