//! How long making every schema takes, once, as a bridge does when it starts.
//!
//! `cargo run --release -p portreeve-domains --example schemas`

use std::time::Instant;

#[expect(clippy::print_stdout, reason = "its figures are what this program is for")]
fn main() {
    let begun = Instant::now();
    let registry = portreeve_domains::load().expect("what is linked is a registry");
    let loaded = begun.elapsed();
    let mut slowest = Vec::new();
    let mut bytes = 0;
    for tool in registry.iter() {
        let begun = Instant::now();
        let schemas = [tool.input_schema(), tool.output_schema()];
        slowest.push((begun.elapsed(), tool.name()));
        bytes += schemas.iter().map(|s| serde_json::to_vec(s).map_or(0, |json| json.len())).sum::<usize>();
    }
    let made = begun.elapsed();
    slowest.sort();
    println!(
        "{} tools: loaded in {loaded:?}, with all schemas in {made:?}, {bytes} bytes of them",
        slowest.len()
    );
    for (took, name) in slowest.iter().rev().take(5) {
        println!("{took:>12?}  {name}");
    }
}
