// Included by each planted crate: fails where the variable PLANT says so.

/// Whether PLANT, a list separated by spaces, has `name`; then whether it fails every time ("name!") or the first time only, of which a
/// file in the folder PLANT_SEEN is the memory.
fn planted(name: &str) -> bool {
    let plants = std::env::var("PLANT").unwrap_or_default();
    if plants.split(' ').any(|plant| plant.strip_suffix('!') == Some(name)) {
        return true;
    }
    let seen = std::path::Path::new(&std::env::var_os("PLANT_SEEN").unwrap_or_default()).join(name.replace(':', "-"));
    plants.split(' ').any(|plant| plant == name) && std::fs::File::create_new(seen).is_ok()
}
