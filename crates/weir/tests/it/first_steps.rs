//! The first mistakes of an operator, and what the node lets others see.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Setup, line, output, stderr, text, weir};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What of a data folder others may look into: none of it but where the node is reached.
fn open_to_others(data: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        if mode(&entry.path()) & 0o077 != 0 {
            open.push(entry.file_name().into_string().unwrap());
        }
    }
    open.sort();
    open
}

#[test]
fn what_a_node_keeps_is_its_users_alone() {
    let setup = Setup::new(&line(1, "10", r#","daily":"5","pacing":"curve""#));
    let data = setup.data();
    // An earlier version left it open.
    std::fs::create_dir_all(data.join("edits")).unwrap();
    std::fs::write(data.join("edits/log"), "").unwrap();
    for (path, bits) in [("edits", 0o755), ("edits/log", 0o644)] {
        std::fs::set_permissions(data.join(path), PermissionsExt::from_mode(bits)).unwrap();
    }
    let mut node = setup.start();
    let mut client = node.client();
    client.wait_verdict(1, 1, wire::Verdict::Granted);
    assert_ne!(mode(&data.join("addresses.json")) & 0o044, 0, "others find the node by it");
    node.interrupt();
    assert!(node.wait_end().success());
    assert_eq!(open_to_others(&data), ["lock"]);
    assert_eq!((mode(&data.join("edits")), mode(&data.join("edits/log"))), (0o700, 0o600));
    for name in ["history", "journal", "profiles"] {
        assert_eq!(mode(&data.join(name)), 0o700, "{name}");
    }
    assert_eq!(mode(&data.join("pacing.bin")), 0o600);
}

/// `weir check` on the data folder of a node, running and stopped: as the node judges, and nothing is written.
#[test]
fn check_judges_as_the_node_does() {
    let five: Vec<String> = (1..=5).map(|id| line(id, "10", "")).collect();
    let setup = Setup::new(&five.concat());
    let (data, file) = (setup.data(), setup.budgets_file());
    let mut node = setup.start();
    node.client().grant(1, 1);
    let new = file.with_file_name("new.jsonl");
    let check = |budgets: &str| {
        std::fs::write(&new, budgets).unwrap();
        let args = ["check", "--budgets", text(&new), "--data", text(&data)];
        let checked = output(weir().args(args));
        (checked.status.code(), stderr(&checked))
    };
    let cases = [
        (five.concat(), ""),
        (five[1..].concat() + &line(1, "10", r#","unit":"EUR""#), "new.jsonl:5: budget 1: unit"),
        (five[1..].concat() + &line(1, "10", r#","parent":2"#), "new.jsonl:5: budget 1: parent"),
        (five[..2].concat(), "new.jsonl: it would end 3 of 5 budgets (ids 3, 4, 5)"),
        (String::new(), "it would end 5 of 5 budgets"),
        (five[1..].concat(), ""),
    ];
    for stopped in [false, true] {
        if stopped {
            node.interrupt();
            assert!(node.wait_end().success());
        }
        for (budgets, expected) in &cases {
            let (code, told) = check(budgets);
            assert!(told.contains(expected), "{expected} not in {told}");
            assert_eq!(code, Some(i32::from(!expected.is_empty())), "{told}");
            let by = told.contains("with the journal and the edits of its data folder");
            assert_eq!(by, expected.is_empty(), "{told}");
        }
    }
    // A folder without a journal is none.
    let args = ["check", "--budgets", text(&new), "--data", text(new.parent().unwrap())];
    let checked = output(weir().args(args));
    assert!(stderr(&checked).contains("there is no journal in it"), "{}", stderr(&checked));
    assert_eq!(checked.status.code(), Some(1));
}

/// Another node's journal, none where there was one, and an older copy: `weir check` says what the start says, and changes nothing.
#[test]
fn check_refuses_what_a_start_refuses() {
    let setup = Setup::new(&line(1, "10", ""));
    let (data, file) = (setup.data(), setup.budgets_file());
    let journal = data.join("journal");
    let run_once = || {
        let mut node = setup.clone().start();
        node.client().grant(1, 1);
        node.interrupt();
        assert!(node.wait_end().success(), "{}", node.log());
    };
    run_once();
    // By --data and as the configured folder; both say the same as the start.
    let refused = |id: &str, what: &str| {
        let started = setup.clone().with("node.id", id).try_start().map(drop);
        let started = started.expect_err("it must not start");
        for by_flag in [true, false] {
            let mut check = weir();
            check.args(["check", "--budgets", text(&file)]).env("WEIR_NODE__ID", id);
            match by_flag {
                true => check.args(["--data", text(&data)]),
                false => check.env("WEIR_NODE__DATA_DIR", &data),
            };
            let checked = output(&mut check);
            let told = stderr(&checked);
            let line = told.lines().find(|line| line.contains(what));
            let line = line.unwrap_or_else(|| panic!("{what} not in {told}"));
            assert!(started.contains(line), "{line} not in {started}");
            assert!(told.contains("1 error(s)") && !told.contains("sound:"), "{told}");
            assert_eq!(checked.status.code(), Some(1), "{told}");
        }
    };
    refused("9", "the journal was written by node 1, this is node 9");

    let aside = data.join("aside");
    std::fs::rename(&journal, &aside).unwrap();
    refused("1", "was used by a node before (watermark.weir is there)");
    assert!(!journal.exists());
    std::fs::create_dir(&journal).unwrap();
    refused("1", "missing or empty");
    std::fs::remove_dir(&journal).unwrap();

    // Yesterday's copy.
    std::fs::create_dir(&journal).unwrap();
    for entry in std::fs::read_dir(&aside).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), journal.join(entry.file_name())).unwrap();
    }
    run_once();
    std::fs::remove_dir_all(&journal).unwrap();
    std::fs::rename(&aside, &journal).unwrap();
    refused("1", "the journal ends before record");
}

#[test]
fn check_names_the_files_and_what_they_were_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let told = |arguments: &[&str]| {
        let checked = output(weir().arg("check").args(arguments).current_dir(folder.path()));
        assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
        let told = stderr(&checked);
        let rate = " The spend door has room for 1111 new idempotency keys a second (spend.keys_max = 4000000, each kept for \
                    spend.keys_keep_s = 3600).\n";
        told.strip_suffix(rate).unwrap_or_else(|| panic!("{told}")).to_owned() + "\n"
    };
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("weir.toml", "[node]\nid = 3\n");
    file("run.jsonl", &(line(1, "1", "") + &line(2, "1", "")));
    let both = ["--config", "weir.toml", "--budgets", "run.jsonl"];
    assert_eq!(
        told(&both),
        "weir.toml and run.jsonl are sound: 2 budgets, none of them a campaign. They were not compared with a ledger, because there \
         is no data folder weir-data; give --data to do that.\n"
    );
    assert_eq!(
        told(&[]),
        "warning: weir.toml is not read: name it with --config weir.toml\nthe configuration is sound; there is no budgets file \
         budgets.jsonl. It was not compared with a ledger, because there is no data folder weir-data; give --data to do that.\n"
    );
    std::fs::remove_file(folder.path().join("weir.toml")).unwrap();
    std::fs::create_dir_all(folder.path().join("weir-data/journal")).unwrap();
    let creative = r#","bid":"2","creatives":[{"id":"c","format":"banner","sizes":["300x250"],"adomain":["a.example"],"markup":"x"}]"#;
    file("run.jsonl", &line(1, "1", creative));
    assert_eq!(
        told(&both[2..]),
        "the configuration and run.jsonl are sound: 1 budget, 1 of them a campaign. They were not compared with a ledger, because the \
         data folder weir-data has no journal; give --data to do that.\n"
    );
    // A file of templates is no empty one; of five doubts of a kind three are told, and how many more there are.
    let templates = "{\"template\":\"llm/{team}\",\"limit\":\"5\"}\n";
    file("run.jsonl", templates);
    let found = told(&both[2..]);
    let are = "sound: 0 budgets, no campaign, and 1 template that budgets are made from.";
    assert!(found.contains(are), "{found}");
    let swapped: String = (1..=5).map(|id| line(id, "1", r#","daily":"2""#)).collect();
    file("run.jsonl", &swapped);
    let found = told(&both[2..]);
    assert_eq!(found.matches("are `daily` and `limit` swapped?").count(), 3, "{found}");
    assert!(found.contains("run.jsonl: 2 more lines of which the same is true"), "{found}");
}

/// What is sound and hardly meant is told, and is no error.
#[test]
fn check_warns_of_names_that_are_no_keys_and_of_budgets_that_cannot_spend() {
    let folder = tempfile::tempdir().unwrap();
    let over = line(2, "5", r#","end":"2026-01-01T00:00:00Z""#);
    std::fs::write(folder.path().join("b.jsonl"), line(1, "5", r#","daily":"50""#) + &over)
        .unwrap();
    let mut check = weir();
    check.args(["check", "--budgets", "b.jsonl"]).env("WEIR_LEDGER_HOLD_MS", "3");
    let checked = output(check.current_dir(folder.path()));
    let told = stderr(&checked);
    assert_eq!(checked.status.code(), Some(0), "{told}");
    for expected in [
        "warning: WEIR_LEDGER_HOLD_MS: this is no key, and it is ignored; did you mean WEIR_LEDGER__HOLD_MS?",
        "warning: b.jsonl:1: budget 1: a day may spend 50.00 USD",
        "warning: b.jsonl:2: budget 2: its flight is over since 2026-01-01T00:00:00Z",
        "b.jsonl are sound: 2 budgets",
    ] {
        assert!(told.contains(expected), "{expected} not in {told}");
    }
}

/// Budgets for orders that nobody holds in them, and sessions whose orders no budget would take.
#[test]
fn check_warns_where_orders_and_budgets_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    for (limits, orders, warns) in [
        (
            "budgets",
            "",
            "none of its budgets has `orders`, and limits = \"budgets\" of 1 fix.session",
        ),
        (
            "none",
            r#","orders":{"account":"A"}"#,
            "1 of its budgets bind orders, and no fix.session",
        ),
        (
            "budgets",
            r#","orders":{"account":"A"},"status":"ended""#,
            "none of its budgets has `orders`",
        ),
        ("budgets", r#","orders":{"account":"A"}"#, ""),
        ("none", "", ""),
        ("budgets", "no file", "none of its budgets has `orders`"),
    ] {
        let config = format!(
            "[[fix.session]]\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"DESK\"\nlimits = \"{limits}\"\nroute = \"v\"\n\
             [[fix.venue]]\nname = \"v\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"V\"\nconnect = [\"127.0.0.1:1\"]\n"
        );
        std::fs::write(folder.path().join("weir.toml"), config).unwrap();
        let budgets = folder.path().join("budgets.jsonl");
        match orders {
            "no file" => std::fs::remove_file(budgets).unwrap(),
            orders => std::fs::write(budgets, line(1, "5", orders)).unwrap(),
        }
        let mut check = weir();
        check.args(["check", "--config", "weir.toml"]);
        let checked = output(check.current_dir(folder.path()));
        let told = stderr(&checked);
        assert_eq!(checked.status.code(), Some(0), "{told}");
        assert!(told.contains(warns) && told.contains("warning: ") != warns.is_empty(), "{told}");
    }
}

#[test]
fn two_doors_with_one_address_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    let address = "127.0.0.1:28710";
    for (one, other) in [("batch", "openrtb"), ("batch", "admin"), ("openrtb", "admin")] {
        let written =
            format!("[{one}]\nlisten = \"{address}\"\n[{other}]\nlisten = \"{address}\"\n");
        std::fs::write(&config, written).unwrap();
        let expected = format!("{other}.listen is {address}, which is {one}.listen, too");
        let by_flags = [format!("--{one}"), address.into(), format!("--{other}"), address.into()];
        let mut flags = vec!["run".to_string()];
        flags.extend(by_flags);
        for arguments in [
            vec!["check".to_string(), "--config".into(), text(&config).into()],
            vec!["run".to_string(), "--config".into(), text(&config).into()],
            flags,
        ] {
            let told = output(weir().args(&arguments).current_dir(folder.path()));
            assert!(stderr(&told).contains(&expected), "{expected} not in {}", stderr(&told));
            assert_eq!(told.status.code(), Some(1));
        }
    }
    // Port 0 is another port each time.
    std::fs::write(
        &config,
        "[batch]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    let told = output(weir().args(["check", "--config", text(&config)]).current_dir(folder.path()));
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
}

#[test]
fn an_address_in_use_names_its_door_key_and_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for door in ["batch", "openrtb", "spend", "admin"] {
        let setup = Setup::new(&line(1, "10", ""));
        let mut command = weir();
        command.args([
            "run",
            "--budgets",
            text(&setup.budgets_file()),
            "--data",
            text(&setup.data()),
        ]);
        for each in ["batch", "openrtb", "spend", "admin"] {
            let address = if each == door { address.as_str() } else { "127.0.0.1:0" };
            command.args([&format!("--{each}"), address]);
        }
        let told = output(command.env("WEIR_WORKERS__CORES", "0"));
        let expected =
            format!("the {door} door ({door}.listen, --{door}): cannot listen on {address}");
        assert!(stderr(&told).contains(&expected), "{expected} not in {}", stderr(&told));
        assert_eq!(told.status.code(), Some(1));
    }
}

#[test]
fn a_start_without_budgets_says_what_to_do() {
    let setup = Setup::new("");
    let file = setup.budgets_file();
    std::fs::remove_file(&file).unwrap();
    let told = output(&mut setup.command());
    assert!(stderr(&told).contains("does not exist"), "{}", stderr(&told));
    // Unnamed it may be missing.
    let data = setup.data();
    let mut command = weir();
    command.args([
        "run",
        "--data",
        text(&data),
        "--batch",
        "127.0.0.1:0",
        "--openrtb",
        "localhost:1",
    ]);
    let told = output(&mut command);
    assert!(stderr(&told).contains("for localhost write 127.0.0.1"), "{}", stderr(&told));
    assert_eq!(told.status.code(), Some(2));
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let setup = Setup::new("");
    let file = setup.budgets_file();
    std::fs::write(&file, b"{\"id\":1,\"limit\":\"1\"}\n{\"id\":2,\"limit\":\"\xff\"}\n").unwrap();
    let told = output(weir().args(["check", "--budgets", text(&file)]));
    assert!(stderr(&told).contains("budgets.jsonl:2: not UTF-8"), "{}", stderr(&told));
    assert_eq!(told.status.code(), Some(1));
}
