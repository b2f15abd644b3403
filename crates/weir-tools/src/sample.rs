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
        let limit = 100 + chance % 20_000;
        let budget = serde_json::json!({
            "id": id,
            "name": format!("{} {}", pick(&BRANDS, 0), pick(&GOALS, 8)),
            "unit": "USD",
            "limit": format!("{limit}.00"),
            "daily": format!("{}.00", (limit / 10).max(50)),
            "tz": pick(&ZONES, 16),
            "pacing": pick(&PACINGS, 24),
            "status": if chance.is_multiple_of(50) { "paused" } else { "active" },
        });
        writeln!(out, "{budget}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_samples_are_sound() {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        super::write(500, 1, &mut file.as_file()).unwrap();
        assert_eq!(weir_config::budgets::read(file.path()).unwrap().len(), 500);
    }
}
