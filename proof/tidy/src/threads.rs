//! Threads and queues of ARCHITECTURE.md and those of the code are the same.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::pages::{code_words, table};
use crate::tree::{Breach, Tree, is_test};

/// Functions that start a thread with a name; the name is their first argument.
const STARTERS: [&str; 2] = ["spawn", "thread"];
/// Functions that make a queue.
const QUEUES: [&str; 5] = ["channel", "sync_channel", "bounded", "unbounded", "unbounded_channel"];

/// The threads that a page lists and those that the code starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Threads {
    /// Started, and in no row.
    pub unlisted: Vec<Breach>,
    /// Names of rows that nothing starts.
    pub gone: Vec<String>,
}

/// Compares the first column of the table below `heading` with the names of threads that the crates of the product start. `others` are
/// the names of threads that nothing of ours starts by name: those of libraries, and the main one.
pub fn threads_of(tree: &Tree, page: &str, heading: &str, others: &[&str]) -> Threads {
    let rows = table(page, heading, "thread");
    let names_of = |row: &Vec<String>| row[0].split(", ").map(str::to_string).collect::<Vec<_>>();
    let listed: BTreeSet<String> = rows.iter().flat_map(names_of).collect();
    let started = starts(tree);
    let names: BTreeSet<&str> = started.iter().map(|(name, _)| name.as_str()).collect();
    let unlisted = started
        .iter()
        .filter(|(name, _)| !listed.contains(name))
        .map(|(_, breach)| breach.clone())
        .collect();
    let is_there =
        |name: &&String| !names.contains(name.as_str()) && !others.contains(&name.as_str());
    let gone = listed.iter().filter(is_there).cloned().collect();
    Threads { unlisted, gone }
}

/// Every name of a thread of the product, with where it is started.
fn starts(tree: &Tree) -> Vec<(String, Breach)> {
    let mut found = Vec::new();
    for source in product(tree) {
        let mut finder =
            StartFinder { file: &source.file, names: &mut found, queues: &mut Vec::new() };
        finder.visit_file(&source.syntax);
    }
    found
}

/// Every place of the product that makes a queue, in a file whose path no row of the table below `heading` names in code type. A row may
/// leave out the front of the path.
pub fn queues_without_a_row(tree: &Tree, page: &str, heading: &str) -> Vec<Breach> {
    let rows = table(page, heading, "queue");
    let named: BTreeSet<String> = rows.iter().flatten().flat_map(|cell| code_words(cell)).collect();
    let mut breaches = Vec::new();
    for source in product(tree) {
        let mut queues = Vec::new();
        StartFinder { file: &source.file, names: &mut Vec::new(), queues: &mut queues }
            .visit_file(&source.syntax);
        if named.iter().any(|name| source.file.ends_with(name.as_str())) {
            continue;
        }
        breaches.extend(queues);
    }
    breaches.sort();
    breaches
}

fn product(tree: &Tree) -> impl Iterator<Item = &crate::tree::Source> {
    tree.sources
        .iter()
        .filter(|source| source.crate_folder.starts_with("crates/") && source.is_product())
}

struct StartFinder<'a> {
    file: &'a str,
    names: &'a mut Vec<(String, Breach)>,
    queues: &'a mut Vec<Breach>,
}

impl StartFinder<'_> {
    fn breach(&self, span: Span, what: String) -> Breach {
        Breach { file: self.file.to_string(), line: span.start().line, what }
    }

    fn thread<'e>(&mut self, arguments: impl Iterator<Item = &'e syn::Expr>, span: Span) {
        let Some(name) = arguments.filter_map(text).find(|name| is_thread_name(name)) else {
            return;
        };
        let breach =
            self.breach(span, format!("the thread `{name}` has no row in ARCHITECTURE.md"));
        self.names.push((name, breach));
    }
}

/// Names of threads are short words with dashes; a builder of something else that has a name is none.
fn is_thread_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The text of a literal, also of `"text".into()` and of `"text".to_string()`; of `format!("text-{n}")` what stands before the number.
fn text(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Reference(to) => text(&to.expr),
        syn::Expr::Macro(called) if called.mac.path.is_ident("format") => {
            let first = called.mac.tokens.clone().into_iter().next()?;
            let format: syn::LitStr = syn::parse2(first.into()).ok()?;
            format.value().split_once("-{").map(|(name, _)| name.to_string())
        }
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        syn::Expr::MethodCall(call) => text(&call.receiver),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for StartFinder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_name = call.method == "name" || call.method == "thread_name";
        if is_name && call.args.len() == 1 {
            self.thread(call.args.iter(), call.method.span());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func
            && let Some(last) = path.path.segments.last()
        {
            let name = last.ident.to_string();
            if STARTERS.contains(&name.as_str()) {
                self.thread(call.args.iter().take(1), call.span());
            }
            let of_ring = path.path.segments.iter().any(|segment| segment.ident == "RingBuffer");
            if QUEUES.contains(&name.as_str()) || of_ring {
                let what = "no row of ARCHITECTURE.md's queues names the file of this queue";
                let breach = self.breach(call.span(), what.to_string());
                self.queues.push(breach);
            }
        }
        visit::visit_expr_call(self, call);
    }
}
