//! `cargo run --release -p portreeve-test-harness --bin bench`: every figure beside a reference of the same run.
//!
//! It sets up what it measures: throwaway homes on this disk's file system, real bridges, real listeners.
//! Nothing here asserts a time; it prints a table, and whoever reads it judges.

#![expect(clippy::print_stdout, reason = "a table is what this program is for")]

mod figures;
mod ground;
mod mcp;
mod scenes;

use figures::Table;

fn main() {
    let only = std::env::args().nth(1);
    let mut table = Table::new();
    println!("{}", ground::machine());
    for (name, scene) in scenes::ALL {
        if only.as_deref().is_none_or(|only| name.contains(only)) {
            println!("· {name}");
            scene(&mut table);
        }
    }
    println!("\n{table}\n{}", ground::machine());
}
