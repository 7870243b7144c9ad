//! What is done on the server: each script is one step that nobody sees a part of.

use redis::{Script, ScriptInvocation};

/// All keys, in the order in which the scripts take them. What is in the braces makes them of one slot of a cluster.
const KEYS: [&str; 4] = ["{pinnace}:version", "{pinnace}:leases", "{pinnace}:clients", "{pinnace}:topics"];

macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("prelude.lua"), include_str!($file)))
    };
}

pub struct Scripts {
    pub claim: Script,
    pub renew: Script,
    pub release: Script,
    pub members: Script,
    pub clear: Script,
}

impl Scripts {
    pub fn new() -> Scripts {
        Scripts {
            claim: script!("claim.lua"),
            renew: script!("renew.lua"),
            release: script!("release.lua"),
            members: script!("members.lua"),
            clear: script!("clear.lua"),
        }
    }
}

/// A call of a script, to which its arguments are to be added.
pub fn call(script: &Script) -> ScriptInvocation<'_> {
    let mut call = script.prepare_invoke();
    call.key(&KEYS[..]);
    call
}
