//! One suite of behaviour, run over epoll and both forms of io_uring.
//!
//! io_uring is skipped, with the reason printed, where the kernel refuses it.
#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test
#![allow(unreachable_pub)] // reason: a binary of modules; `pub` says what the others use

mod abuse;
mod basics;
mod child;
mod dials;
mod limits;
mod pieces;
mod refusal;
mod stopping;
mod support;
mod ticks;
mod tls;
mod tls_abuse;
mod waiting;
mod waking;

/// Makes one test a backend out of each named function.
macro_rules! over_backends {
    ($($module:ident :: $name:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $name() { crate::support::over("epoll", crate::$module::$name); })*
        }
        mod io_uring_defer {
            $(#[test] fn $name() { crate::support::over("io_uring-defer", crate::$module::$name); })*
        }
        mod io_uring_coop {
            $(#[test] fn $name() { crate::support::over("io_uring-coop", crate::$module::$name); })*
        }
    };
}

over_backends!(
    abuse::a_flood_does_not_starve_others,
    abuse::a_peer_that_never_reads_costs_bounded_memory,
    abuse::a_peer_that_never_reads_is_closed,
    abuse::a_reset_is_noticed,
    abuse::a_slow_message_is_closed,
    abuse::garbage_hurts_only_its_sender,
    abuse::silence_is_closed,
    abuse::the_memory_of_waiting_answers_is_bounded,
    abuse::the_total_of_waiting_answers_is_bounded_and_others_are_served,
    abuse::of_many_who_never_read_those_with_the_most_go,
    basics::a_client_that_finished_sending_gets_its_answers,
    basics::a_client_that_finished_sending_gets_what_it_is_owed,
    basics::a_large_message_arrives_whole,
    basics::a_slow_reader_loses_nothing,
    basics::bytes_one_by_one,
    basics::close_after_output_delivers_the_output,
    basics::close_at_once,
    basics::random_chunks_come_back,
    basics::several_doors_are_told_apart,
    basics::pipelined_frames_are_answered_together,
    basics::tiny_receive_buffers_are_enough,
    basics::unix_sockets_work_too,
    child::ten_hundred_and_more_idle_connections,
    child::without_descriptors_accepting_pauses,
    limits::a_full_worker_refuses,
    limits::a_listener_may_have_limits_of_its_own,
    limits::too_large_messages_are_refused_early,
    limits::unfinished_messages_are_bounded_in_total,
    dials::a_full_worker_does_not_dial,
    dials::a_dial_finds_the_address_that_answers_and_comes_back,
    dials::a_dial_may_have_limits_of_its_own,
    dials::a_refused_line_waits_longer_each_time,
    dials::a_stop_does_not_wait_for_an_attempt,
    dials::no_answer_is_a_time_out,
    pieces::a_large_answer_is_made_as_fast_as_it_is_taken,
    pieces::a_large_body_is_taken_in_pieces_as_fast_as_it_is_used,
    pieces::bytes_for_a_slow_connection_are_bounded,
    pieces::bytes_reach_another_connection_and_never_its_successor,
    stopping::a_panic_of_the_service_leaves_nothing_running,
    stopping::a_stop_before_the_start_ends_at_once,
    stopping::whoever_may_speak_while_the_loop_stops_is_heard,
    stopping::stop_answers_what_was_received,
    stopping::a_stop_answers_what_came_behind_a_request_that_waits,
    stopping::who_never_stops_sending_does_not_hold_up_a_stop,
    stopping::stop_is_bounded_by_the_grace,
    ticks::those_who_asked_tick_and_others_do_not,
    ticks::ticks_of_those_who_are_gone_reach_nobody,
    waiting::bytes_age_while_the_loop_is_busy,
    waiting::answers_leave_before_the_wake_up_ends,
    waking::a_paused_connection_keeps_the_order_of_its_answers,
    waking::a_quiet_connection_that_is_written_to_does_not_stall,
    waking::a_stale_id_reaches_nobody,
    waking::answers_of_other_threads_wake_the_loop,
    waking::no_wake_up_is_lost,
    waking::spinning_and_timers_take_turns,
);

mod over_tls {
    over_backends!(
        dials::a_dial_speaks_tls_and_shows_its_certificate,
        dials::a_dial_to_no_tls_server_fails_in_time,
        dials::a_dial_trusts_nobody_else,
        pieces::a_large_answer_over_tls,
        tls::a_large_message_arrives_whole,
        tls::a_protocol_that_nobody_speaks_is_refused,
        tls::a_renewed_certificate_is_shown_from_the_next_handshake_on,
        tls::a_stop_says_goodbye,
        tls::a_ticket_of_before_a_reload_buys_nothing,
        tls::client_certificates_are_asked_for_and_shown,
        tls::close_notify_ends_both_directions,
        tls::pipelined_frames_are_answered_together,
        tls::random_pieces_come_back,
        tls_abuse::a_byte_at_a_time,
        tls_abuse::a_cut_stream_is_told_from_its_end,
        tls_abuse::a_damaged_record_ends_its_connection_only,
        tls_abuse::a_flood_of_handshakes_does_not_starve_others,
        tls_abuse::a_full_worker_refuses,
        tls_abuse::a_peer_that_never_reads_costs_bounded_memory,
        tls_abuse::a_peer_that_never_reads_is_closed,
        tls_abuse::a_reset_is_noticed,
        tls_abuse::a_slow_handshake_is_ended,
        tls_abuse::a_slow_message_is_closed,
        tls_abuse::endless_handshakes_are_ended,
        tls_abuse::garbage_hurts_only_its_sender,
        tls_abuse::half_handshakes_are_bounded_and_the_oldest_goes,
        tls_abuse::whoever_says_nothing_whole_takes_no_place,
        tls_abuse::those_who_say_nothing_are_bounded_and_others_come_in,
        tls_abuse::plain_bytes_on_a_tls_port_are_counted,
        tls_abuse::random_bytes_instead_of_a_handshake,
        tls_abuse::silence_is_closed,
        tls_abuse::tls_on_a_plain_port_is_counted,
        tls_abuse::too_large_messages_are_refused_early,
    );
}
