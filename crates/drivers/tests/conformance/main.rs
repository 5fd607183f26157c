//! What any driver has to do, on real sockets with threads as peers. Each scenario is generic over [`TestDriver`]; a
//! new driver implements it and adds one line of `suite!`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests with real sockets, threads and pauses; a failed unwrap is a failed test"
)]

mod aborts;
mod bytes;
mod cancels;
mod connects;
mod descriptors;
mod ends;
mod limits;
mod listeners;
mod pauses;
mod support;
mod turns;

/// One test per scenario for one driver. Scenarios that count descriptors or lower their limit run in a process of
/// their own.
macro_rules! suite {
    ($driver_module:ident, $driver:ty) => {
        suite!(@tests $driver_module, $driver,
            here: [
                bytes::echo_in_pieces,
                bytes::many_small_writes_stay_in_order,
                bytes::turns_of_one_event_lose_nothing,
                bytes::slow_readers_stall_and_drain_and_lose_nothing,
                bytes::peers_that_are_always_behind_cost_no_more_than_that,
                bytes::drained_comes_at_the_low_water_mark,
                bytes::drained_connections_leave_the_driver_at_rest,
                pauses::paused_connections_are_not_read,
                pauses::paused_connections_still_send,
                pauses::resets_are_noticed_while_paused,
                pauses::unix_peers_that_are_gone_are_noticed_while_paused,
                pauses::bytes_left_behind_wait_for_the_program,
                pauses::an_end_of_stream_waits_for_the_program,
                pauses::answers_to_the_last_bytes_are_sent_after_a_pause,
                ends::end_of_stream_is_told_once,
                ends::half_closed_is_closed,
                ends::resets_carry_their_errno,
                ends::last_words_are_heard_when_sending_fails,
                ends::last_words_of_many_are_heard_when_sending_fails,
                ends::closing_flushes_everything,
                ends::finishing_flushes_what_was_closed,
                ends::closing_with_unread_bytes_does_not_lose_the_farewell,
                ends::closing_does_not_hear_out_a_flood,
                ends::closing_without_a_reader_ends,
                ends::a_signal_cuts_the_last_closes_short,
                ends::other_signals_leave_the_last_closes_their_time,
                ends::nothing_is_heard_after_closing,
                aborts::what_the_system_has_arrives_after_a_close_and_not_after_an_abort,
                aborts::what_the_system_does_not_have_is_not_sent_after_an_abort,
                aborts::an_aborted_unix_connection_ends,
                aborts::nothing_is_heard_after_an_abort,
                connects::tcp_connects,
                connects::tcp_refusals_carry_their_errno,
                connects::unix_connects,
                connects::unix_refusals_carry_their_errno,
                connects::full_unix_backlogs_are_told,
                connects::local_addresses_are_bound,
                connects::addresses_that_cannot_be_bound_are_told,
                listeners::tcp_peers_are_named,
                listeners::unix_peers_are_named_by_their_uid,
                listeners::ipv6_listeners_work,
                listeners::ipv4_peers_of_ipv6_listeners_are_ipv4_peers,
                listeners::taken_tcp_addresses_are_refused,
                listeners::stale_unix_sockets_are_replaced,
                listeners::live_unix_sockets_are_left_alone,
                listeners::files_that_are_no_sockets_are_left_alone,
                listeners::unix_socket_files_go_with_the_driver,
                listeners::stopping_to_listen_keeps_connections,
                listeners::a_listener_of_others_too_says_nothing_once_it_is_left,
                listeners::accepting_has_a_share_of_each_turn,
                listeners::accepts_that_lose_races_do_not_pause,
                cancels::closing_at_once,
                cancels::closing_with_bytes_arriving,
                cancels::closing_while_sending,
                cancels::closing_while_paused,
                cancels::closing_while_stalled,
                cancels::finishing_while_connecting,
                cancels::dropping_a_driver_closes_everything,
                limits::more_arrivals_than_buffers,
                limits::more_connections_than_a_table_has_places,
                limits::connecting_and_closing_leaks_nothing,
                limits::churn_mixes_nothing_up,
                turns::signals_wake_the_loop_in_order,
                turns::reports_are_counted_and_wakes_are_not,
                turns::timeouts_fire_without_a_busy_loop,
                turns::a_turn_ends_after_its_inputs,
                turns::stale_ids_are_ignored,
                turns::the_largest_settings_are_taken,
                turns::settings_out_of_range_are_refused,
            ],
            apart: [
                descriptors::opening_and_closing_leaks_nothing,
                descriptors::a_pause_of_accepting_is_over_by_itself,
                descriptors::running_out_of_descriptors_pauses_accepting,
                descriptors::resets_are_noticed_without_descriptors,
                descriptors::connecting_without_descriptors,
            ]
        );
    };
    (@tests $driver_module:ident, $driver:ty,
        here: [$($module:ident::$scenario:ident,)*], apart: [$($apart_module:ident::$apart:ident,)*]) => {
        mod $driver_module {
            $(
                #[test]
                fn $scenario() {
                    let _watchdog = crate::support::Watchdog::start();
                    if !<$driver as crate::support::TestDriver>::is_available() {
                        return;
                    }
                    crate::$module::$scenario::<$driver>();
                }
            )*
            $(
                #[test]
                fn $apart() {
                    let _watchdog = crate::support::Watchdog::start();
                    if !<$driver as crate::support::TestDriver>::is_available() {
                        return;
                    }
                    let name = concat!(stringify!($driver_module), "::", stringify!($apart));
                    crate::support::in_own_process(name, crate::$apart_module::$apart::<$driver>);
                }
            )*
        }
    };
}

suite!(epoll, drivers::EpollDriver);
suite!(uring, drivers::UringDriver);
