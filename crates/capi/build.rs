//! How the shared object is linked: under libzmq's name, and never unloaded, since its threads run on.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzmq.so.5");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
