//! Finds OpenPGM, where the feature `pgm` asks for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "pgm")]
    if let Err(error) = pkg_config::Config::new().range_version("5.3".."5.4").probe("openpgm-5.3") {
        panic!("the feature `pgm` needs OpenPGM 5.3 (Debian: libpgm-dev): {error}");
    }
}
