//! Every model, run to its end.

use interleavings::{histograms, journal, profiles};

#[test]
fn a_reader_sees_the_maximum_of_what_it_counts() {
    histograms::a_reader_sees_the_maximum_of_what_it_counts();
}

#[test]
fn what_was_seen_once_is_seen_again() {
    histograms::what_was_seen_once_is_seen_again();
}

#[test]
fn a_stored_user_is_never_a_stranger_when_the_filter_becomes_complete() {
    profiles::a_stored_user_is_never_a_stranger_when_the_filter_becomes_complete();
}

#[test]
fn two_who_insert_into_one_line_lose_nothing() {
    profiles::two_who_insert_into_one_line_lose_nothing();
}

#[test]
fn a_user_who_left_memory_is_found_in_the_filter() {
    profiles::a_user_who_left_memory_is_found_in_the_filter();
}

#[test]
fn what_is_sealed_is_written_and_told() {
    journal::what_is_sealed_is_written_and_told();
}

#[test]
fn a_writer_that_gathers_is_woken_by_who_waits() {
    journal::a_writer_that_gathers_is_woken_by_who_waits();
}

#[test]
fn an_end_leaves_nothing_behind() {
    journal::an_end_leaves_nothing_behind();
}

#[test]
fn who_waits_is_not_forgotten() {
    journal::who_waits_is_not_forgotten();
}

#[test]
fn a_reader_sees_what_is_sealed() {
    journal::a_reader_sees_what_is_sealed();
}
