//! The token files of the doors: read at the start, and again while the node runs.

use std::collections::BTreeMap;
use std::path::Path;

use access::file::{FileError, Found};
use access::{LiveTokens, Role, TokenFile, file, found_scope};

use weir_config::config::Config;
use weir_config::doors::{TokensKey, all_doors};
use weir_config::paths;

use crate::door::{CheckScopes, DoorFacts};

/// What is in force at each door, in the order of [`all_doors`]; `None` at one without a file. Doors may share a file.
#[derive(Clone, Debug)]
pub struct Tokens {
    live: Vec<Option<LiveTokens>>,
    doors: &'static [DoorFacts],
}

impl Tokens {
    /// Reads the files that a configuration names; these doors know scopes of their own.
    ///
    /// # Errors
    /// What is wrong with any of them, each line of it.
    pub fn read(config: &Config, doors: &'static [DoorFacts]) -> Result<Tokens, Vec<String>> {
        let files = read_files(config, doors)?;
        let live = files.into_iter().map(|file| file.map(LiveTokens::new)).collect();
        Ok(Tokens { live, doors })
    }

    /// Returns what is in force at the door with this name.
    #[must_use]
    pub fn of(&self, door: &str) -> Option<&LiveTokens> {
        let mut doors = all_doors().zip(&self.live);
        doors.find(|(spec, _)| spec.name == door).and_then(|(_, live)| live.as_ref())
    }

    /// The tokens that spend or look at a door of money, by name, whose scopes reach a budget under one of these two handles and not
    /// under the other; true for one that reaches it under the second.
    #[must_use]
    pub fn reach(
        &self,
        id: u64,
        before: Option<&str>,
        after: Option<&str>,
    ) -> BTreeMap<String, bool> {
        // Doors may share a file; a name means the same in both then.
        let files = ["spend", "batch"].into_iter().filter_map(|door| self.of(door));
        let files: Vec<_> = files.map(LiveTokens::file).collect();
        let principals = files.iter().flat_map(|file| file.principals());
        let clients = principals.filter(|one| matches!(one.role(), Role::Spend | Role::Read));
        let reached =
            clients.map(|one| (one, [before, after].map(|handle| one.scopes().allows(id, handle))));
        let changed = reached.filter(|(_, [before, after])| before != after);
        changed.map(|(one, [_, after])| (one.name().to_string(), after)).collect()
    }

    /// Reads the files again and puts them in force.
    ///
    /// # Errors
    /// What is wrong with any of them, or what only a start can change; all doors then keep the files that they have.
    pub fn reload(&self, config: &Config) -> Result<(), Vec<String>> {
        self.replace(self.read_again(config)?);
        Ok(())
    }

    /// Reads the files again, for [`replace`](Self::replace).
    ///
    /// # Errors
    /// What is wrong with any of them, or what only a start can change.
    pub fn read_again(&self, config: &Config) -> Result<TokensRead, Vec<String>> {
        let files = read_files(config, self.doors)?;
        let changed = |(live, file): (&Option<LiveTokens>, &Option<TokenFile>)| {
            live.is_some() != file.is_some()
        };
        let doors = all_doors().zip(self.live.iter().zip(&files));
        let errors: Vec<String> = doors
            .filter(|(_, door)| changed(*door))
            .map(|(door, _)| {
                format!(
                    "{}.tokens_file: a door gets or loses its token file only at a start; restart the node",
                    door.name
                )
            })
            .collect();
        if errors.is_empty() { Ok(TokensRead(files)) } else { Err(errors) }
    }

    /// Puts other files in force: the next call, the next batch and the next look at a live stream are judged by them. A token that
    /// is gone lets nobody in any more, also on a connection that it opened; a frame that waits for the bank (`awaitFill`) is still
    /// judged as that of its sender.
    pub fn replace(&self, files: TokensRead) {
        for (live, file) in self.live.iter().zip(files.0) {
            if let (Some(live), Some(file)) = (live, file) {
                live.replace(file);
            }
        }
    }
}

/// Files that were read again, one of each door.
#[derive(Debug)]
pub struct TokensRead(Vec<Option<TokenFile>>);

/// Reads the files of all doors as they are now, in the order of [`all_doors`].
fn read_files(config: &Config, doors: &[DoorFacts]) -> Result<Vec<Option<TokenFile>>, Vec<String>> {
    // Doors that share a file judge the same version of it.
    let mut loaded: Vec<(&str, Loaded)> = Vec::new();
    let judged = all_doors().map(|door| {
        let Some(TokensKey { key, path, roles }) = door.tokens else { return Ok(None) };
        let path = path(config);
        let known = loaded.iter().find(|(other, _)| *other == path);
        let found = known.map_or_else(|| load(path), |(_, found)| found.clone());
        loaded.push((path, found.clone()));
        let facts = doors.iter().find(|facts| facts.name == door.name);
        judge(key, path, found, (roles, facts.and_then(|facts| facts.scopes)))
    });
    let (files, failed): (Vec<_>, Vec<_>) = judged.partition(Result::is_ok);
    let errors: Vec<String> = failed.into_iter().filter_map(Result::err).flatten().collect();
    if errors.is_empty() { Ok(files.into_iter().flatten().collect()) } else { Err(errors) }
}

/// A file as it is now, or why it cannot be used; `None` if there is none.
type Loaded = Option<Result<Found, String>>;

fn load(path: &str) -> Loaded {
    let told = |error| match error {
        FileError::System { path, source } => paths::told(&path, &source),
        other => other.to_string(),
    };
    (!path.is_empty()).then(|| file::read(Path::new(path)).map_err(told))
}

/// The file of a key; it must name somebody whom its door lets in.
fn judge(
    key: &str,
    path: &str,
    loaded: Loaded,
    (roles, check): (&[Role], Option<CheckScopes>),
) -> Result<Option<TokenFile>, Vec<String>> {
    let Some(found) = loaded else { return Ok(None) };
    let found = found
        .map_err(|error| error.lines().map(|line| format!("{key} {line}")).collect::<Vec<_>>())?;
    if !found.file.has_role(roles) {
        let roles: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        let roles = roles.join(" or ");
        return Err(vec![format!(
            "{key} {path}: no line has the role {roles}, so no client could connect"
        )]);
    }
    // The admin door shows everything to whoever may read.
    let scoped: Vec<&str> = found.file.scoped_readers().collect();
    if roles.contains(&Role::Operate) && !scoped.is_empty() {
        return Err(vec![format!(
            "{key} {path}: {} may read with scopes, which this door does not heed; take them out, or give the spend door a file of its own",
            scoped.join(", ")
        )]);
    }
    // What verbs there are, the door knows.
    for (line, name, scopes) in found.file.key_scopes() {
        let Some(check) = check else { break };
        check(scopes).map_err(|(place, error)| {
            let found = found_scope(scopes, place);
            vec![format!("{key} {path}:{line}: the scopes of {name}: {error}{found}")]
        })?;
    }
    for warning in found.warnings {
        tracing::warn!("{key} {warning}");
    }
    Ok(Some(found.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "ann operate aaaaaaaaaaaaaaaa\nshop spend bbbbbbbbbbbbbbbb budget:1\n";

    fn config(path: &Path) -> Config {
        let mut config = Config::default();
        config.admin.tokens_file = path.display().to_string();
        config.batch.tokens_file = path.display().to_string();
        config
    }

    fn named(tokens: Option<&LiveTokens>, token: &[u8]) -> Option<String> {
        let file = tokens.unwrap().file();
        file.find(token).map(|principal| principal.name().to_string())
    }

    #[test]
    fn a_bad_file_leaves_all_doors_what_they_have() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, FILE).unwrap();
        let config = config(&path);
        let tokens = Tokens::read(&config, &[]).unwrap();
        for (bad, expected) in [
            ("ann operate short\nbob owner aaaaaaaaaaaaaaaa\n", 4),
            ("ann operate aaaaaaaaaaaaaaaa\n", 1),
            ("shop spend bbbbbbbbbbbbbbbb\n", 1),
            ("", 2),
            ("ann operate aaaaaaaaaaaaaaaa\nshop spend bbbbb", 2),
        ] {
            std::fs::write(&path, bad).unwrap();
            let errors = tokens.reload(&config).unwrap_err();
            assert_eq!(errors.len(), expected, "{errors:?}");
            assert!(errors.iter().all(|error| error.contains("tokens_file ")), "{errors:?}");
            assert_eq!(named(tokens.of("batch"), b"bbbbbbbbbbbbbbbb").as_deref(), Some("shop"));
            assert_eq!(named(tokens.of("admin"), b"aaaaaaaaaaaaaaaa").as_deref(), Some("ann"));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(tokens.reload(&config).unwrap_err()[0].contains("No such file"));
        std::fs::write(&path, FILE.replace("shop", "store")).unwrap();
        tokens.reload(&config).unwrap();
        assert_eq!(named(tokens.of("batch"), b"bbbbbbbbbbbbbbbb").as_deref(), Some("store"));
    }

    #[test]
    fn a_new_handle_changes_whom_scopes_let_near_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let file = "all spend aaaaaaaaaaaaaaaa\nid spend bbbbbbbbbbbbbbbb budget:7\nold spend cccccccccccccccc handle:llm/a\n\
                    new read dddddddddddddddd handle:team/*\nboth spend eeeeeeeeeeeeeeee handle:llm/*,handle:team/*\n";
        std::fs::write(&path, file).unwrap();
        let mut config = Config::default();
        config.spend.tokens_file = path.display().to_string();
        let tokens = Tokens::read(&config, &[]).unwrap();
        let reach = |before, after| tokens.reach(7, before, after).into_iter().collect::<Vec<_>>();
        let named = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
            all.iter().map(|(name, gains)| (name.to_string(), *gains)).collect()
        };
        assert_eq!(reach(Some("llm/a"), Some("team/a")), named(&[("new", true), ("old", false)]));
        assert_eq!(reach(Some("llm/a"), None), named(&[("both", false), ("old", false)]));
        assert_eq!(reach(None, Some("shop")), named(&[]));
    }

    /// Whoever may read at the admin door reads everything: a scope would promise what it does not keep.
    #[test]
    fn readers_with_scopes_are_the_spend_doors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let file = FILE.to_owned() + "board read cccccccccccccccc budget:1\n";
        std::fs::write(&path, file).unwrap();
        let mut config = config(&path);
        let errors = Tokens::read(&config, &[]).err().unwrap();
        assert!(
            errors[0].contains("board may read with scopes") && errors.len() == 1,
            "{errors:?}"
        );
        config.admin.tokens_file.clear();
        config.spend.tokens_file = path.display().to_string();
        let tokens = Tokens::read(&config, &[]).unwrap();
        assert_eq!(named(tokens.of("spend"), b"cccccccccccccccc").as_deref(), Some("board"));
    }

    /// Without this a door that asks for tokens would stand open once the key is emptied.
    #[test]
    fn a_door_gets_or_loses_its_file_at_a_start_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, FILE).unwrap();
        let mut config = config(&path);
        let tokens = Tokens::read(&config, &[]).unwrap();
        config.admin.tokens_file.clear();
        let errors = tokens.reload(&config).unwrap_err();
        assert!(errors[0].starts_with("admin.tokens_file: ") && errors.len() == 1, "{errors:?}");
        assert!(Tokens::read(&config, &[]).unwrap().of("admin").is_none());
    }
}
