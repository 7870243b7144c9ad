//! Registries: one suite for all kinds, and tests specific to each.

#[path = "../faults/checker.rs"]
#[allow(dead_code)]
mod checker;
mod conformance;
mod crowds;
mod folder;
mod outages;
mod place;
mod redis;
mod server;
mod sqlite;
mod tls;

/// Runs tests of the suite for each kind of place.
macro_rules! over_all {
    ($($room:ident::$name:ident)*) => {
        mod in_a_folder {
            $(#[test] fn $name() { crate::$room::$name(&crate::place::Place::folder()) })*
        }
        mod in_sqlite {
            $(#[test] fn $name() { crate::$room::$name(&crate::place::Place::sqlite()) })*
        }
        mod in_redis {
            $(#[test] fn $name() { crate::$room::$name(&crate::place::Place::redis()) })*
        }
    };
}

over_all! {
    conformance::a_claim_is_seen_by_all
    conformance::a_name_is_one_client_s
    conformance::the_same_client_claims_again
    conformance::a_name_given_back_is_free_at_once
    conformance::nobody_else_gives_a_name_back_or_renews_it
    conformance::who_lost_the_name_hears_of_it
    conformance::the_killed_leave
    conformance::the_killed_come_back
    conformance::a_registry_that_forgets_hides_no_receiver
    conformance::an_old_entry_hides_no_receiver
    conformance::one_that_begins_to_listen_is_known_from_then_on
    conformance::what_is_sent_to_all_waits_for_the_killed
    conformance::nothing_new_is_said_once
    conformance::what_the_dead_left_is_cleared
    conformance::any_name_will_do
    conformance::what_is_out_of_range_is_refused
    conformance::versions_stay
    conformance::the_detached_still_listen
    conformance::the_forgotten_are_marked
    conformance::a_closed_client_misses_nothing
    crowds::a_thousand_clients
    crowds::ten_thousand_topics
    crowds::of_many_at_once_one_has_the_name
    crowds::readers_keep_nobody_from_claiming
    crowds::a_client_that_changes_is_always_there_and_whole
    crowds::killed_at_any_point
}

/// The entry point of child processes; does nothing unless one of these tests started it.
#[test]
fn child() {
    place::be_a_child();
}

#[test]
fn other_addresses_are_refused_without_their_secrets() {
    use pinnace_delivery::registry::{RegistryError, open};
    for (url, said) in [
        ("redis://user:secret@", "redis:// without an address"),
        ("redis://", "redis:// without a path"),
        ("redis://:secret@host/first", "redis:// without a host, or with a database that is no number"),
        ("redis://:secret@host?ca=x", "redis:// with a parameter that is not known"),
        ("rediss://:secret@host?cert=x", "rediss:// with one of cert and key"),
        ("rediss://:secret@host/#insecure", "rediss:// with a fragment"),
        ("redis://secret@host", "redis:// with a user and without a password"),
        ("http://host/x", "http://"),
        ("", "nothing"),
        ("dir://", "dir:// without a path"),
        ("sqlite://", "sqlite:// without a path"),
        ("Sqlite://x", "Sqlite://"),
        ("sqlite:/x", "sqlite:/x"),
        ("NONE", "NONE"),
    ] {
        let refused = open(url).err();
        assert_eq!(refused, Some(RegistryError::Url(said.to_owned())), "{url}");
        let text = refused.unwrap().to_string();
        assert!(text.contains("sqlite://PATH") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn a_bare_path_is_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er");
    let mut bare = pinnace_delivery::registry::open(path.to_str().unwrap()).unwrap();
    let mut other = pinnace_delivery::registry::open(&format!("dir://{}", path.display())).unwrap();
    bare.claim(&place::entry("one", 1)).unwrap();
    assert!(other.members().unwrap().unwrap().get("one").is_some());
}
