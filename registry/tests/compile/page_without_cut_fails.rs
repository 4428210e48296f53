//! A page is cut, never made: so none is without a bound.

use portreeve_registry::*;

fn page(cut: &Cut<u64>) -> PageOf<u64> {
    let rows = (0..).map(|n| Ok::<_, Failure>((n, n)));
    let page = PageOf { items: { let _ = cut; rows.map(|row| row.unwrap().0).collect() }, page: PageInfo::default() };
    page
}

fn main() {
    let _ = page;
}
