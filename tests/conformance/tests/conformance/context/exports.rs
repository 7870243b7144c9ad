//! The shared object as a program sees it: its name, and its exports.

use std::ffi::{CStr, c_void};
use std::os::unix::ffi::OsStrExt;

use support::api::{exports, library, library_path};

/// All that libzmq 4.3.5 exports in a stable build.
const STABLE: &str = "
    zmq_atomic_counter_dec zmq_atomic_counter_destroy zmq_atomic_counter_inc zmq_atomic_counter_new
    zmq_atomic_counter_set zmq_atomic_counter_value zmq_bind zmq_close zmq_connect zmq_ctx_destroy zmq_ctx_get
    zmq_ctx_new zmq_ctx_set zmq_ctx_shutdown zmq_ctx_term zmq_curve_keypair zmq_curve_public zmq_device
    zmq_disconnect zmq_errno zmq_getsockopt zmq_has zmq_init zmq_msg_close zmq_msg_copy zmq_msg_data zmq_msg_get
    zmq_msg_gets zmq_msg_init zmq_msg_init_data zmq_msg_init_size zmq_msg_more zmq_msg_move zmq_msg_recv
    zmq_msg_send zmq_msg_set zmq_msg_size zmq_poll zmq_proxy zmq_proxy_steerable zmq_recv zmq_recviov zmq_recvmsg
    zmq_send zmq_send_const zmq_sendiov zmq_sendmsg zmq_setsockopt zmq_sleep zmq_socket zmq_socket_monitor
    zmq_stopwatch_intermediate zmq_stopwatch_start zmq_stopwatch_stop zmq_strerror zmq_term zmq_threadclose
    zmq_threadstart zmq_timers_add zmq_timers_cancel zmq_timers_destroy zmq_timers_execute zmq_timers_new
    zmq_timers_reset zmq_timers_set_interval zmq_timers_timeout zmq_unbind zmq_version zmq_z85_decode
    zmq_z85_encode";

/// libzmq's draft interface; stable builds of libzmq export none of it, ours export all.
const DRAFT: &str = "
    zmq_connect_peer zmq_ctx_get_ext zmq_ctx_set_ext zmq_disconnect_peer zmq_join zmq_leave zmq_msg_group
    zmq_msg_init_buffer zmq_msg_routing_id zmq_msg_set_group zmq_msg_set_routing_id zmq_poller_add
    zmq_poller_add_fd zmq_poller_destroy zmq_poller_fd zmq_poller_modify zmq_poller_modify_fd zmq_poller_new
    zmq_poller_remove zmq_poller_remove_fd zmq_poller_size zmq_poller_wait zmq_poller_wait_all zmq_ppoll
    zmq_socket_get_peer_state zmq_socket_monitor_pipes_stats zmq_socket_monitor_versioned";

/// The interface of guaranteed delivery; libzmq exports none of it.
const DELIVERY: &str = "
    pinnace_client_pending_by_peer pinnace_cursor_schema pinnace_delivery_cursor
    pinnace_client_statistics_json pinnace_client_statistics_prometheus pinnace_client_metrics_address
    pinnace_client_addresses pinnace_client_clear_addresses pinnace_client_clear_pending
    pinnace_client_options_curve pinnace_client_options_trust pinnace_client_registry_error
    pinnace_delivery_in_progress pinnace_client_close pinnace_client_endpoint pinnace_client_error pinnace_client_listen
    pinnace_client_fd pinnace_client_options_cert pinnace_client_options_trust_file pinnace_delivery_give_back
    pinnace_client_name pinnace_client_on_error pinnace_client_options_destroy pinnace_client_options_new
    pinnace_client_options_topic
    pinnace_client_options_peer pinnace_client_options_set pinnace_client_pending pinnace_client_recv
    pinnace_client_run pinnace_client_send pinnace_client_send_all pinnace_client_send_async pinnace_client_send_to
    pinnace_client_start pinnace_client_subscribe pinnace_client_unsubscribe pinnace_client_wait
    pinnace_client_wait_listeners pinnace_client_ack_and_send pinnace_client_ack_and_send_async
    pinnace_client_wait_pending pinnace_delivery_accepted_ms pinnace_delivery_ack pinnace_delivery_body
    pinnace_delivery_deliveries pinnace_delivery_dead_deliveries pinnace_delivery_dead_receiver
    pinnace_delivery_dead_reason pinnace_delivery_dead_topic pinnace_delivery_fail pinnace_delivery_from
    pinnace_delivery_content_type pinnace_delivery_header pinnace_delivery_header_at pinnace_delivery_headers
    pinnace_delivery_id pinnace_delivery_traceparent pinnace_delivery_tracestate pinnace_delivery_ordering_key
    pinnace_delivery_nack pinnace_delivery_size pinnace_delivery_terminate pinnace_delivery_topic";

/// The interface of file transfer; libzmq exports none of it.
const FILES: &str = "
    pinnace_files_client_close pinnace_files_client_connect pinnace_files_client_options_cert
    pinnace_files_client_options_curve pinnace_files_client_options_destroy pinnace_files_client_options_new
    pinnace_files_client_options_password pinnace_files_client_options_set pinnace_files_discard
    pinnace_files_error pinnace_files_follow pinnace_files_get pinnace_files_list pinnace_files_put
    pinnace_files_rules_destroy pinnace_files_rules_exclude pinnace_files_rules_include pinnace_files_rules_new
    pinnace_files_rules_set pinnace_files_server_close pinnace_files_server_endpoint
    pinnace_files_server_options_bind pinnace_files_server_options_cert pinnace_files_server_options_curve
    pinnace_files_server_options_destroy pinnace_files_server_options_folder pinnace_files_server_options_grant
    pinnace_files_server_options_new pinnace_files_server_options_password pinnace_files_server_options_set
    pinnace_files_server_options_user pinnace_files_server_options_user_file pinnace_files_server_sent
    pinnace_files_server_start pinnace_files_transfer_cancel pinnace_files_transfer_close
    pinnace_files_transfer_failure pinnace_files_transfer_fd pinnace_files_transfer_next_event
    pinnace_files_transfer_wait";

/// Returns true if the library itself exports the symbol, and not a library that it depends on.
fn exports_itself(name: &str) -> bool {
    // SAFETY: the symbol's address alone is used.
    let Ok(at) = (unsafe { library().get::<*const c_void>(name.as_bytes()) }) else { return false };
    // SAFETY: zeros are a valid Dl_info, and it is read only where dladdr filled it.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(at.try_as_raw_ptr().expect("an address"), &mut info) != 0;
        found && CStr::from_ptr(info.dli_fname).to_bytes() == library_path().as_os_str().as_bytes()
    }
}

#[test]
fn every_function_is_there() {
    assert_eq!((STABLE.split_whitespace().count(), DRAFT.split_whitespace().count()), (70, 27));
    let ours = if exports("pinnace_version") { [DRAFT, DELIVERY, FILES] } else { [""; 3] };
    for name in [STABLE].iter().chain(&ours).flat_map(|names| names.split_whitespace()) {
        assert!(exports_itself(name), "{name}");
    }
}

#[test]
fn its_name_is_libzmqs() {
    let object = std::fs::read(library_path()).expect("the library");
    let name = b"\0libzmq.so.5\0";
    assert!(object.windows(name.len()).any(|bytes| bytes == name));
}
