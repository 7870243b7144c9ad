//! `pinnace deliver forget`: ends the subscriptions of a client that is gone for good.

use pinnace::delivery::paths;
use pinnace::delivery::registry::{self, RegistryError};

use super::client::of_registry;
use crate::outcome::{Failure, Outcome};
use crate::table::deliver::Forget;

pub fn run(given: &Forget) -> Outcome {
    let url = given.registry.clone().unwrap_or_else(paths::registry);
    // Opening a registry would create it.
    if let Some(path) = registry::path_of(&url)
        && !path.exists()
    {
        return Err(Failure::of(path.display(), "no registry found"));
    }
    registry::forget(&url, &given.name).map_err(|error| match error {
        RegistryError::NameTaken => Failure::of(&given.name, "the client lives"),
        error => of_registry(error),
    })
}
