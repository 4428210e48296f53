//! A page is cut, never made: so none is without a bound.

use portreeve_registry::*;

fn page(cut: &Cut<u64>) -> PageOf<u64> {
    let rows = (0..).map(|n| Ok::<_, Failure>((n, n)));
    let page = cut.page(rows).unwrap();
    page
}

fn main() {
    let _ = page;
}
