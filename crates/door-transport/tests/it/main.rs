//! One suite of behaviour, run over epoll and both forms of io_uring.
//!
//! io_uring is skipped, with the reason printed, where the kernel refuses it.
#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test
#![allow(unreachable_pub)] // reason: a binary of modules; `pub` says what the others use

mod abuse;
mod basics;
mod child;
mod limits;
mod refusal;
mod stopping;
mod support;
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
    abuse::the_total_of_waiting_answers_is_bounded,
    basics::a_client_that_finished_sending_gets_its_answers,
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
    limits::too_large_messages_are_refused_early,
    limits::unfinished_messages_are_bounded_in_total,
    stopping::a_panic_of_the_service_leaves_nothing_running,
    stopping::a_stop_before_the_start_ends_at_once,
    stopping::stop_answers_what_was_received,
    stopping::stop_is_bounded_by_the_grace,
    waking::a_paused_connection_keeps_the_order_of_its_answers,
    waking::a_stale_id_reaches_nobody,
    waking::answers_of_other_threads_wake_the_loop,
    waking::no_wake_up_is_lost,
    waking::spinning_and_timers_take_turns,
);
