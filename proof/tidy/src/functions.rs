//! A function fits on a page.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::tree::{Breach, Tree};

/// Lines of a function, from its first attribute-free line to its closing brace. TigerBeetle's limit.
pub const LINES_MAX: usize = 70;

/// Every function longer than [`LINES_MAX`], in tests too. One that is a single `match` over single expressions is a table: it may have as
/// many rows as there are kinds.
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
    fn judge(&mut self, name: &syn::Ident, begin: Span, block: &syn::Block) {
        let line = begin.start().line;
        let lines = block.span().end().line + 1 - line;
        if lines > LINES_MAX && !is_table(block) {
            let what = format!("`{name}` has {lines} lines, {LINES_MAX} is the limit");
            self.breaches.push(Breach { file: self.file.to_string(), line, what });
        }
    }
}

/// Is it one `match` whose arms are expressions without statements?
fn is_table(block: &syn::Block) -> bool {
    let [syn::Stmt::Expr(syn::Expr::Match(table), None)] = &block.stmts[..] else { return false };
    table.arms.iter().all(|arm| !matches!(*arm.body, syn::Expr::Block(_)))
}

impl<'ast> Visit<'ast> for FunctionFinder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.judge(&item.sig.ident, item.sig.span(), &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.judge(&item.sig.ident, item.sig.span(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.judge(&item.sig.ident, item.sig.span(), block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
