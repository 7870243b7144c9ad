//! The scripts that run on the server, each of them atomic.

use redis::{Script, ScriptInvocation};

/// All keys, in the order of the scripts' arguments. The part in braces puts them into one slot of a cluster.
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

/// A call of a script, with its keys and without its arguments.
pub fn call(script: &Script) -> ScriptInvocation<'_> {
    let mut call = script.prepare_invoke();
    call.key(&KEYS[..]);
    call
}
