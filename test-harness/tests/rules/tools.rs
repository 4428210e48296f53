//! What every tool's declaration keeps.

use crate::{none, registry};
use portreeve_test_harness::rules::{bounds, examples, fuzz, inputs, portable};

#[test]
fn every_input_is_closed_at_every_level() {
    none(&inputs::open(&registry()));
}

#[test]
fn every_input_field_is_described() {
    none(&inputs::undescribed(&registry()));
}

#[test]
fn no_type_has_a_field_whose_name_is_the_registrys() {
    none(&inputs::shadowed(&registry()));
}

#[test]
fn an_unknown_field_is_refused_wherever_it_is() {
    none(&inputs::lax(&registry()));
}

#[test]
fn every_schema_is_one_that_every_host_takes() {
    none(&portable::faults(&registry()));
}

#[test]
fn everything_has_a_type_but_what_is_on_the_list() {
    none(&bounds::untyped(&registry()));
}

#[test]
fn every_array_in_an_answer_has_an_end() {
    none(&bounds::endless(&registry()));
}

#[test]
fn every_example_is_valid_by_its_schema() {
    none(&examples::invalid(&registry()));
}

#[test]
fn every_example_is_taken_and_asks_its_own_operation() {
    none(&examples::refused(&registry()));
}

#[test]
fn no_spoilt_input_is_taken_that_the_schema_refuses() {
    none(&fuzz::faults(&registry()));
}
