//! Keys that are unsealed later, from other places than a file, or wrapped under another key: `weir vault` and nodes.

use std::fs::File;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::keys::{Client, HELLO, KEK, audit, kek_file, own_token, sealed, unsealed, write_secret};
use crate::support::{Setup, output, stderr, stdout, text, wait_for, weir};

const OTHER_KEK: &str = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
const WORDS: &str = "correct horse battery staple";

/// `weir vault` with these words on the folder of a setup, and what stands on its standard input.
fn vault(setup: &Setup, words: &str, input: &str) -> Output {
    let file = setup.folder().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = weir();
    command.arg("vault").args(words.split(' ')).arg("--data").arg(setup.data());
    command.env_remove("WEIR_TOKEN").stdin(File::open(file).unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

/// What a command prints that does what it is asked for.
pub(crate) fn done(setup: &Setup, words: &str, input: &str) -> String {
    let output = vault(setup, words, input);
    assert!(output.status.success(), "{words}: {}", stderr(&output));
    stdout(&output)
}

/// What one says that does not; the secret on its standard input is never among it.
pub(crate) fn refused(setup: &Setup, words: &str, input: &str) -> String {
    let output = vault(setup, words, input);
    assert_eq!(output.status.code(), Some(1), "{words}: {}", stdout(&output));
    let error = stderr(&output);
    assert!(input.is_empty() || !error.contains(input), "{error}");
    assert!(stdout(&output).is_empty(), "{}", stdout(&output));
    error
}

pub(crate) fn keys_of(data: &Path) -> Option<Vec<u8>> {
    std::fs::read(data.join("vault/keys")).ok()
}

/// Whoever takes the key out of the configuration hears at once that the keys are of no use.
#[test]
fn a_start_that_leaves_keys_sealed_says_so() {
    let setup = unsealed();
    let node = setup.clone().start();
    Client::to(&node).encrypt("a", HELLO);
    drop(node);
    let node = setup.with("vault.key_file", "").start();
    assert!(node.log().contains("they stay sealed until weir vault unseal"), "{}", node.log());
    drop(node);
    let fresh = sealed().start();
    assert!(!fresh.log().contains("stay sealed"), "there are none: {}", fresh.log());
    wait_for("what to do", || fresh.log().contains("run weir vault unseal --first"));
    let missing = sealed().with("vault.key_file", "no-such-kek").start();
    let log = missing.log();
    let told = "vault.key_file no-such-kek: there is no such file; it was looked for in /";
    assert!(log.contains(told) && log.contains("restart the node when it is there"), "{log}");
}

/// Sealed while it runs: calls are 503 at once, the page says so, and it is unsealed again, or by its next start.
#[test]
fn a_running_node_is_sealed_and_unsealed_again() {
    let setup = unsealed();
    let node = setup.clone().start();
    let mut client = Client::to(&node);
    let message = client.encrypt("a", HELLO);
    let mut nobody = Client::with(&node, "X-Vault-Token: weir_nobody");
    assert_eq!(nobody.refused("PUT", "sys/seal", ""), (403, "[\"permission denied\"]".into()));
    assert_eq!(client.decrypt("a", &message), HELLO);
    assert!(done(&setup, "seal", "").contains(": sealed"));
    let body = json!({"ciphertext": message}).to_string();
    let sealed = (503, "[\"Vault is sealed\"]".to_owned());
    assert_eq!(client.refused("POST", "transit/decrypt/a", &body), sealed);
    assert_eq!(client.ask("PUT", "sys/seal", "").status, 204, "twice is once");
    assert_eq!(vault(&setup, "status", "").status.code(), Some(2));
    let (_, shown) = node.get("/v1/vault");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["sealed"], &shown["count"]), (&json!(true), &json!(0)), "{shown}");
    let lines = audit(&setup.data());
    let last = lines.iter().rfind(|line| line["verb"] == "admin").unwrap();
    assert_eq!([&last["who"], &last["status"]], [&json!("vault-token"), &json!(204)]);
    assert_eq!(last["act"], "seal");
    assert!(refused(&setup, "unseal", OTHER_KEK).contains("nothing was written"));
    assert!(done(&setup, "unseal", KEK).contains(": unsealed"));
    assert_eq!(client.decrypt("a", &message), HELLO);
    assert!(done(&setup, "seal", "").contains(": sealed"));
    let node = node.restart();
    assert_eq!(Client::to(&node).decrypt("a", &message), HELLO, "its file unseals it");
}

#[test]
fn a_sealed_node_is_unsealed_with_its_own_key_and_no_other() {
    let setup = sealed();
    let node = setup.clone().start();
    let status = vault(&setup, "status", "");
    assert_eq!(status.status.code(), Some(2), "{}", stderr(&status));
    assert!(stdout(&status).contains(": sealed"), "{}", stdout(&status));
    assert!(stdout(&status).contains("weir vault unseal --first"), "{}", stdout(&status));
    assert!(refused(&setup, "unseal", KEK).contains("--first"));
    assert!(refused(&setup, "unseal --first", "5a").contains("expected 64 hexadecimal digits"));
    assert!(refused(&setup, "unseal --first", "").contains("it is empty"));
    assert_eq!(keys_of(&setup.data()), None, "nothing was written");
    assert!(done(&setup, "unseal --first", &format!("{KEK}\n")).contains(": unsealed"));
    let message = Client::to(&node).encrypt("a", HELLO);
    assert!(done(&setup, "unseal", OTHER_KEK).contains("unsealed already"), "it changes nothing");
    let line = audit(&setup.data()).into_iter().rfind(|line| line["verb"] == "admin").unwrap();
    assert_eq!(
        [&line["who"], &line["key"], &line["status"]],
        [&json!("vault-token"), &json!(""), &json!(200)]
    );
    // After a kill the node is sealed again.
    let node = node.restart();
    let before = keys_of(&setup.data());
    for words in ["unseal", "unseal --first"] {
        assert!(refused(&setup, words, OTHER_KEK).contains("nothing was written"));
        assert!(
            refused(&setup, &format!("{words} --passphrase"), WORDS)
                .contains("not begun with a passphrase")
        );
    }
    assert_eq!(keys_of(&setup.data()), before);
    done(&setup, "unseal", KEK);
    assert_eq!(Client::to(&node).decrypt("a", &message), HELLO);
    // A thread of its own writes the log.
    wait_for("the word of it", || node.log().contains("the keys were unsealed"));
    assert!(!node.log().contains(KEK), "{}", node.log());
}

#[test]
fn a_passphrase_unseals_with_the_salt_of_its_folder() {
    let setup = sealed();
    let node = setup.clone().start();
    assert!(
        refused(&setup, "unseal --passphrase --first", "short").contains("expected 12 to 1024")
    );
    done(&setup, "unseal --passphrase --first", &format!("{WORDS}\n"));
    let message = Client::to(&node).encrypt("a", HELLO);
    let node = node.restart();
    let other = refused(&setup, "unseal --passphrase", "correct horse batteries");
    assert!(
        other.contains("nothing was written") && !other.contains("try --passphrase"),
        "{other}"
    );
    let plain = refused(&setup, "unseal", KEK);
    assert!(
        plain.contains("begun with a passphrase") && plain.contains("try --passphrase"),
        "{plain}"
    );
    let status = vault(&setup, "status", "");
    assert!(!stdout(&status).contains("--first"), "it has its key: {}", stdout(&status));
    done(&setup, "unseal --passphrase", WORDS);
    assert_eq!(Client::to(&node).decrypt("a", &message), HELLO);
    assert!(
        done(&setup, "export-check --passphrase", WORDS)
            .contains("1 keys with 1 versions: all open")
    );
    drop(node);
    let file = setup.folder().join("kek");
    write_secret(&file, KEK);
    done(&setup, &format!("rewrap --passphrase --new-key-file {}", file.display()), WORDS);
    let node = setup.with("vault.key_file", text(&file)).start();
    assert_eq!(Client::to(&node).decrypt("a", &message), HELLO);
}

/// Only who may administer all keys; the first key is not for whoever comes first.
#[test]
fn unsealing_wants_a_token_that_may_administer_all_keys() {
    let setup = sealed();
    let tokens = setup.folder().join("tokens");
    write_secret(
        &tokens,
        "one keys aaaaaaaaaaaaaaaa transit/admin/a*,transit/encrypt/*\nall keys bbbbbbbbbbbbbbbb transit/admin/*\n",
    );
    let setup = setup.with("keys.tokens_file", text(&tokens));
    let _node = setup.clone().start();
    let token = |text: &str| {
        let file = setup.folder().join("token");
        write_secret(&file, text);
        format!("unseal --first --token-file {}", file.display())
    };
    let own = format!("the token in {}/vault-token was shown", setup.data().display());
    write_secret(&setup.data().join("vault-token"), "dddddddddddddddd");
    let error = refused(&setup, "unseal --first", KEK);
    assert!(error.contains("transit/admin/*") && error.contains(&own), "{error}");
    assert!(!error.contains("dddddddddddddddd"), "{error}");
    std::fs::remove_file(setup.data().join("vault-token")).unwrap();
    assert!(refused(&setup, "unseal --first", KEK).contains("no token was shown"));
    for wrong in ["aaaaaaaaaaaaaaaa", "cccccccccccccccc"] {
        let error = refused(&setup, &token(wrong), KEK);
        assert!(
            error.contains("permission denied") && error.contains("transit/admin/*"),
            "{error}"
        );
        assert!(error.contains("/token was shown, and this wants one"), "{error}");
        assert!(!error.contains(wrong), "{error}");
    }
    assert_eq!(keys_of(&setup.data()), None);
    done(&setup, &token("bbbbbbbbbbbbbbbb"), KEK);
}

#[test]
fn a_variable_and_a_program_unseal_and_without_them_the_node_starts_sealed() {
    let setup = unsealed();
    let node = setup.clone().start();
    let message = Client::to(&node).encrypt("a", HELLO);
    let token = own_token(&node.data());
    drop(node);
    let setup = setup.with("vault.key_file", "");
    let by_variable = setup.clone().with("vault.key_env", "TEST_KEK");
    assert_eq!(
        Client::to(&by_variable.clone().after(&format!("export TEST_KEK={KEK}")).start())
            .decrypt("a", &message),
        HELLO
    );
    let node = by_variable.start();
    let unset =
        "vault.key_env TEST_KEK: this environment variable is not set; the keys stay sealed";
    assert!(node.log().contains(unset), "{}", node.log());
    assert_eq!(Client::to(&node).ask("GET", "sys/health", "").status, 503);
    drop(node);
    let program = setup.folder().join("program");
    write_secret(
        &program,
        &format!("#!/bin/sh\ncat {} || exit 7\n", setup.folder().join("printed").display()),
    );
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let by_program = setup.clone().with("vault.key_program", text(&program));
    let node = by_program.clone().start();
    assert!(node.log().contains("it failed (exit status: 7)"), "{}", node.log());
    drop(node);
    write_secret(&setup.folder().join("printed"), KEK);
    let node = by_program.start();
    assert_eq!(Client::to(&node).decrypt("a", &message), HELLO);
    assert_eq!(own_token(&node.data()), token);
    drop(node);
    let both = setup.with("vault.key_env", "A").with("vault.key_program", "/b");
    let refused = both.try_start().map(|_| ()).unwrap_err();
    assert!(refused.contains("2 of them are set, expected one at most"), "{refused}");
}

/// Somebody puts the key where the name of its variable belongs: it is refused everywhere, and nobody who sees what is said learns it.
#[test]
fn a_key_in_the_place_of_a_variables_name_is_refused_and_shown_nowhere() {
    const PART: &str = "0b0b0b0b";
    let setup = sealed();
    let file = setup.folder().join("with-key.toml");
    let told = |words: &[&str], variable: Option<(&str, &str)>| {
        let mut command = weir();
        command.args(words).current_dir(setup.folder()).envs(variable);
        let found = output(&mut command);
        let all = format!("{}{}", stdout(&found), stderr(&found));
        assert!(!found.status.success(), "{words:?}: {all}");
        assert!(!all.contains(PART), "{words:?}: {all}");
        all
    };
    let data = setup.data();
    let at = text(&file);
    for (key, name) in
        [("key_env", "WEIR_VAULT__KEY_ENV"), ("transit_token_env", "WEIR_VAULT__TRANSIT_TOKEN_ENV")]
    {
        for words in [&["check"][..], &["check", "--print"], &["run", "--data", text(&data)]] {
            let all = told(words, Some((name, OTHER_KEK)));
            let expected = format!("vault.{key}: expected the name of an environment variable");
            assert!(all.contains(name) && all.contains(&expected), "{all}");
        }
        for quote in ["\"", ""] {
            let line = format!("[vault]\n{key} = {quote}{OTHER_KEK}{quote}\n");
            std::fs::write(&file, line).unwrap();
            let all = told(&["check", "--config", at], None);
            assert!(all.contains("with-key.toml:2: ") && all.contains("expected"), "{all}");
        }
    }
    for words in [&["check"][..], &["run", "--data", text(&data)]] {
        let all = told(words, Some(("WEIR_VAULT__KEY_FILE", OTHER_KEK)));
        assert!(all.contains("vault.key_file: expected the path of a file"), "{all}");
    }
    assert!(!data.exists(), "nothing was begun");
    let all = told(&["vault", "export-check", "--key-env", OTHER_KEK], None);
    assert!(all.contains("--key-env: expected the name of"), "{all}");
    let rewrap = ["vault", "rewrap", "--key-file", "kek", "--new-key-file", OTHER_KEK];
    for words in [&["vault", "export-check", "--key-file", OTHER_KEK][..], &rewrap] {
        let all = told(words, None);
        assert!(all.contains("--key-file or --key-program: expected the path of a file"), "{all}");
    }
    // A name is repeated, so that it can be found.
    let node = setup.with("vault.key_env", "NO_KEK_HERE").start();
    assert!(node.log().contains("NO_KEK_HERE"), "{}", node.log());
}

#[test]
fn a_key_is_shown_and_rotated_from_the_command_line() {
    let setup = unsealed();
    let node = setup.clone().start();
    let mut client = Client::to(&node);
    let old = client.encrypt("orders", HELLO);
    assert!(done(&setup, "rotate orders", "").contains("orders: version 2 seals from now on"));
    assert!(client.encrypt("orders", HELLO).starts_with("vault:v2:"));
    assert_eq!(client.decrypt("orders", &old), HELLO);
    let shown = done(&setup, "status --key orders", "");
    assert!(shown.contains("orders: aes256-gcm96, latest version 2, opens from version 1 on, seals from version 2 on"), "{shown}");
    let shown: Value =
        serde_json::from_str(&done(&setup, "status --json --key orders", "")).unwrap();
    assert_eq!((&shown["sealed"], &shown["key"]["latest_version"]), (&json!(false), &json!(2)));
    // A token that may rotate, and not look.
    let tokens = setup.folder().join("tokens");
    write_secret(&tokens, "op keys aaaaaaaaaaaaaaaa transit/admin/orders\n");
    let file = setup.folder().join("token");
    write_secret(&file, "aaaaaaaaaaaaaaaa");
    drop(node);
    let limited = setup.clone().with("keys.tokens_file", text(&tokens));
    let node = limited.clone().start();
    let with = |words: &str| format!("{words} --token-file {}", file.display());
    assert!(done(&limited, &with("rotate orders"), "").contains("version 3"));
    for (words, scope) in
        [("rotate other", "transit/admin/other"), ("status --key orders", "transit/read/orders")]
    {
        let error = refused(&limited, &with(words), "");
        assert!(error.contains("permission denied") && error.contains(scope), "{error}");
    }
    drop(node);
    let _node = setup.clone().start();
    for words in ["rotate none", "status --key none"] {
        assert!(refused(&setup, words, "").contains("there is no key \"none\""), "{words}");
    }
}

/// `weir check` says of the KEK what a start would say, with the place of its key.
#[test]
fn a_check_tells_whether_the_key_opens_the_keys_of_a_data_folder() {
    let setup = unsealed();
    let file = kek_file(&setup);
    let node = setup.clone().start();
    Client::to(&node).encrypt("a", HELLO);
    drop(node);
    let config = setup.folder().join("kek.toml");
    std::fs::write(&config, format!("[vault]\nkey_file = \"{}\"\n", file.display())).unwrap();
    let check = || {
        let found = output(weir().args([
            "check",
            "--config",
            text(&config),
            "--data",
            text(&setup.data()),
        ]));
        (found.status.success(), stderr(&found))
    };
    let (is_sound, told) = check();
    let opens = format!("opens the keys in {}/vault: 1.", setup.data().display());
    assert!(is_sound && told.contains(&opens), "{told}");
    write_secret(&file, OTHER_KEK);
    let (is_sound, told) = check();
    let wrong = format!("kek.toml:2: vault.key_file {}: this is not the key", file.display());
    assert!(!is_sound && told.contains(&wrong), "{told}");
    assert!(told.contains("a start here is refused"), "{told}");
}

/// The keys under another key: the values that were encrypted stay, and the old key opens no more.
#[test]
fn all_keys_are_wrapped_under_a_new_key_while_the_node_is_stopped() {
    let setup = unsealed();
    let (old_file, new_file) = (kek_file(&setup), setup.folder().join("kek-2"));
    write_secret(&new_file, OTHER_KEK);
    let node = setup.clone().start();
    let messages: Vec<String> = ["a", "b"].map(|key| Client::to(&node).encrypt(key, HELLO)).into();
    let rewrap =
        format!("rewrap --key-file {} --new-key-file {}", old_file.display(), new_file.display());
    let held = refused(&setup, &rewrap, "");
    assert!(held.contains("held by another process, most likely the node that runs"), "{held}");
    let check = |file: &Path| format!("export-check --key-file {}", file.display());
    let before = keys_of(&setup.data());
    let shown = done(&setup, &check(&old_file), "");
    assert!(
        shown.contains("2 keys with 2 versions: all open with this key; 0 may be exported"),
        "{shown}"
    );
    assert!(refused(&setup, &check(&new_file), "").contains("not the key encryption key"));
    assert_eq!(keys_of(&setup.data()), before, "a check changes nothing");
    drop(node);
    // A copy that was cut lacks what its last record said, whatever else opens.
    let kept = setup.data().join("vault/keys");
    let whole = std::fs::read(&kept).unwrap();
    std::fs::write(&kept, &whole[..whole.len() - 7]).unwrap();
    let cut = refused(&setup, &check(&old_file), "");
    assert!(cut.contains("the last record is unfinished") && cut.contains("all open"), "{cut}");
    std::fs::write(&kept, &whole).unwrap();
    let swapped =
        format!("rewrap --key-file {} --new-key-file {}", new_file.display(), old_file.display());
    assert!(refused(&setup, &swapped, "").contains("not the key encryption key"));
    let same = format!("rewrap --key-file {0} --new-key-file {0}", old_file.display());
    assert!(refused(&setup, &same, "").contains("nothing was written"));
    assert_eq!(keys_of(&setup.data()), before);
    assert!(done(&setup, &rewrap, "").contains("2 keys are wrapped under the key in"));
    done(&setup, &check(&new_file), "");
    let inside = setup.data().join("kek-3");
    write_secret(&inside, KEK);
    let words =
        format!("rewrap --key-file {} --new-key-file {}", new_file.display(), inside.display());
    let warned = stderr(&vault(&setup, &words, ""));
    assert!(
        warned.contains("warning: --new-key-file: ") && warned.contains("lies in the data folder"),
        "{warned}"
    );
    let words =
        format!("rewrap --key-file {} --new-key-file {}", inside.display(), new_file.display());
    let quiet = vault(&setup, &words, "");
    assert_eq!((quiet.status.success(), stderr(&quiet)), (true, String::new()));
    assert!(
        setup.clone().try_start().map(|_| ()).unwrap_err().contains("not the key encryption key")
    );
    let node = setup.with("vault.key_file", text(&new_file)).start();
    for (key, message) in ["a", "b"].iter().zip(&messages) {
        assert_eq!(Client::to(&node).decrypt(key, message), HELLO);
    }
}

#[test]
fn what_a_command_misses_it_says_before_it_does_anything() {
    let setup = sealed();
    let missing = refused(&setup, "export-check --key-file none", "");
    assert!(missing.contains("there are no keys"), "{missing}");
    let begun = unsealed();
    drop(begun.clone().start());
    let missing = refused(&begun, "export-check --key-file none", "");
    assert!(
        missing.contains("--key-file none: there is no such file; it was looked for in /"),
        "{missing}"
    );
    let words = format!("rewrap --key-file {} --new-key-file none", kek_file(&begun).display());
    let missing = refused(&begun, &words, "");
    assert!(missing.contains("--new-key-file none: there is no such file"), "{missing}");
    assert!(refused(&setup, "unseal", KEK).contains("is a node running on this data folder?"));
    // Two sources, and none.
    for words in ["export-check", "export-check --key-env A --key-file b"] {
        assert_eq!(vault(&setup, words, "").status.code(), Some(2), "{words}");
    }
    let node = setup.clone().start();
    let https = format!("status --target https://{}", crate::keys::door(&node));
    let plain = refused(&setup, &https, "");
    assert!(plain.contains("set keys.tls_cert and keys.tls_key at the node"), "{plain}");
    // Another node at the address that the folder's had: it gets no key.
    std::fs::write(setup.data().join("vault/id"), "00000000-0000-4000-8000-000000000000\n")
        .unwrap();
    let error = refused(&setup, "unseal --first", KEK);
    assert!(error.contains("does not run on") && error.contains("nothing was sent"), "{error}");
    drop(node);
    let help = stdout(&output(weir().args(["vault", "unseal", "--help"])));
    assert!(help.contains("read -rs P"), "{help}");
}
