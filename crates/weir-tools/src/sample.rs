//! Made-up budgets, to try a node with.

use std::io::{self, Write};

use table::spread;

/// Writes `count` budgets, one JSON object per line. The same seed gives the same budgets.
///
/// # Errors
/// `out` cannot be written.
pub fn write(count: u64, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    const BRANDS: [&str; 12] = [
        "Northlight",
        "Harbour",
        "Juniper",
        "Atlas",
        "Meridian",
        "Saffron",
        "Kestrel",
        "Lumen",
        "Orchard",
        "Tundra",
        "Cobalt",
        "Willow",
    ];
    const GOALS: [&str; 5] = ["awareness", "spring sale", "retargeting", "app installs", "loyalty"];
    const ZONES: [&str; 5] =
        ["Europe/Paris", "America/New_York", "Asia/Tokyo", "UTC", "America/Sao_Paulo"];
    const PACINGS: [&str; 6] = ["asap", "schedule", "schedule", "coin", "curve", "asap"];
    for id in 1..=count {
        let chance = spread(seed ^ spread(id));
        let pick = |list: &'static [&'static str], shift: u32| {
            list[usize::from((chance >> shift).to_le_bytes()[0]) % list.len()]
        };
        let pacing = pick(&PACINGS, 24);
        // A plan for the day is for budgets that free more than a typical ask, 1.00, in a minute of it.
        let least = if pacing == "schedule" { 15_000 } else { 100 };
        let limit = least + chance % 20_000;
        let budget = serde_json::json!({
            "id": id,
            "name": format!("{} {}", pick(&BRANDS, 0), pick(&GOALS, 8)),
            "unit": "USD",
            "limit": format!("{limit}.00"),
            "daily": format!("{}.00", (limit / 10).max(50)),
            "tz": pick(&ZONES, 16),
            "pacing": pacing,
            "status": if chance.is_multiple_of(50) { "paused" } else { "active" },
        });
        writeln!(out, "{budget}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use money::Instant;

    #[test]
    fn the_samples_are_sound_and_nothing_is_doubtful() {
        let now = Instant::parse("2026-01-01T00:00:00Z").unwrap();
        for write in [super::write, crate::sample_campaigns::write] {
            let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
            write(500, 1, &mut file.as_file()).unwrap();
            let budgets = weir_budgets::budgets::read(file.path()).unwrap();
            assert_eq!(budgets.len(), 500);
            let told = weir_budgets::budgets::warnings(&budgets, "samples", now);
            let told: Vec<_> = told.iter().map(|(_, told)| told.to_string()).collect();
            assert_eq!(told, [""; 0]);
        }
    }
}
