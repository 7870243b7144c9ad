//! Compatibility with CZMQ's zcert and zcertstore (Debian's libczmq4): CZMQ reads our files, and we read CZMQ's.
//! Python's ctypes loads CZMQ, so that the tests do not link to it.

use std::path::Path;
use std::process::Command;

use pinnace_cert::{Certificate, Error, KeyPair, SecretKey, Store, secret_path};

const LIBRARY: &str = "libczmq.so.4";

/// Runs Python with CZMQ as `z` and returns its output. `None` if CZMQ is not installed.
fn czmq(code: &str, arguments: &[&Path]) -> Option<String> {
    let prelude = format!(
        "import sys, os\nfrom ctypes import *\ntry:\n    z = CDLL('{LIBRARY}')\nexcept OSError:\n    sys.exit(77)\n\
         def text(name, *a):\n    f = z[name]; f.restype = c_char_p; v = f(*a); return v.decode() if v else ''\n\
         def thing(name, *a):\n    f = z[name]; f.restype = c_void_p; return c_void_p(f(*a))\n\
         def names(paths): return [p.encode() for p in paths]\n"
    );
    let output = Command::new("/usr/bin/python3").args(["-c", &(prelude + code)]).args(arguments).output();
    let output = output.expect("python3 runs");
    if output.status.code() == Some(77) {
        assert!(std::env::var_os("PINNACE_LIB").is_none(), "make test installs {LIBRARY}");
        eprintln!("skipped: there is no {LIBRARY}");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

fn z85(key: &[u8; 32]) -> String {
    pinnace_zmtp::z85::encode_key(key).into_iter().map(char::from).collect()
}

#[test]
fn czmq_reads_ours() {
    let directory = tempfile::tempdir().unwrap();
    let (path, alone) = (directory.path().join("ours"), directory.path().join("alone"));
    let mut certificate = Certificate::generate().unwrap();
    certificate.set_metadata("name", "Ours # and \"theirs\"").unwrap();
    certificate.set_metadata("mail", "a@b.example").unwrap();
    certificate.save(&path).unwrap();
    certificate.save_public(&alone).unwrap();
    let code = "for p in names(sys.argv[1:]):\n    c = thing('zcert_load', p)\n    \
                print(text('zcert_public_txt', c)); print(text('zcert_secret_txt', c))\n    \
                print(text('zcert_meta', c, b'name')); print(text('zcert_meta', c, b'mail'))\n";
    let Some(output) = czmq(code, &[&path, &alone]) else { return };
    let lines: Vec<&str> = output.lines().collect();
    let (public, secret) = (z85(certificate.public_key()), z85(&certificate.keys().unwrap().secret));
    assert_eq!(lines[..4], [&public, &secret, "Ours # and \"theirs\"", "a@b.example"]);
    let no_secret = "0".repeat(40);
    assert_eq!(lines[4..6], [&public, &no_secret]);
}

#[test]
fn we_read_czmqs() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("theirs");
    let code = "c = thing('zcert_new')\nz.zcert_set_meta(c, b'name', b'%s', b'Their name')\n\
                z.zcert_set_meta(c, b'number', b'%s', b'7')\nassert z.zcert_save(c, names(sys.argv[1:])[0]) == 0\n\
                print(text('zcert_public_txt', c)); print(text('zcert_secret_txt', c))\n";
    let Some(output) = czmq(code, &[&path]) else { return };
    let lines: Vec<&str> = output.lines().collect();
    for file in [&path, &secret_path(&path)] {
        let loaded = Certificate::load_public(file).unwrap();
        assert_eq!((z85(loaded.public_key()), loaded.keys()), (lines[0].into(), None));
        assert_eq!((loaded.metadata("name"), loaded.metadata("number")), (Some("Their name"), Some("7")));
    }
    let loaded = Certificate::load(&path).unwrap();
    assert_eq!(z85(&loaded.keys().unwrap().secret), lines[1]);
    assert_eq!(loaded.keys().unwrap().public, *loaded.public_key());
    assert!(matches!(Certificate::load_secret(&path), Err(Error::WrongSecretKey)));
}

#[test]
fn a_store_of_both_knows_the_same_as_czmqs() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("more")).unwrap();
    let ours: Vec<Certificate> = (0..3).map(|_| Certificate::generate().unwrap()).collect();
    ours[0].save(directory.path().join("first")).unwrap();
    ours[1].save_public(directory.path().join("more/second")).unwrap();
    ours[2].save_secret(directory.path().join("third_secret")).unwrap();
    let store = Store::load(directory.path()).unwrap();
    let known: Vec<bool> = ours.iter().map(|one| store.find(one.public_key()).is_some()).collect();
    assert_eq!((store.len(), known), (2, vec![true, true, false]));
    assert!(store.iter().all(|one| one.keys().is_none()) && store.refused.is_empty());
    let code = "s = thing('zcertstore_new', names(sys.argv[1:])[0])\nfor key in names(sys.argv[2:]):\n    \
                print(bool(thing('zcertstore_lookup', s, key).value))\n";
    let keys: Vec<String> = ours.iter().map(|one| z85(one.public_key())).collect();
    let mut arguments = vec![directory.path()];
    arguments.extend(keys.iter().map(Path::new));
    let Some(output) = czmq(code, &arguments) else { return };
    assert_eq!(output.lines().collect::<Vec<_>>(), ["True", "True", "False"]);
}

#[test]
fn secrets_are_for_their_owner_and_files_are_whole() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine");
    std::fs::write(secret_path(&path), "what was there, for all to read").unwrap();
    let certificate = Certificate::generate().unwrap();
    certificate.save(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&secret_path(&path)), 0o600);
    assert_eq!(mode(&path) & 0o200, 0o200);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("secret-key"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left over");
    assert_eq!(Certificate::load(&path).unwrap(), certificate);
    let somebody = Certificate::public(*certificate.public_key());
    assert!(matches!(somebody.save(&path), Err(Error::NoSecretKey)));
    assert!(matches!(certificate.save(directory.path().join("no/such")), Err(Error::Io(_))));
}

#[test]
fn files_that_are_wrong_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong");
    let [one, other] = [1, 2].map(|byte| KeyPair::from_secret(SecretKey::copy_of(&[byte; 32])));
    let (public, secret) = (z85(&one.public), z85(&other.secret));
    let refused = |text: &[u8], with_secret: bool| {
        std::fs::write(&path, text).unwrap();
        let outcome =
            if with_secret { Certificate::load_secret(&path) } else { Certificate::load_public(&path) };
        outcome.unwrap_err()
    };
    let mixed = format!("curve\n    public-key = \"{public}\"\n    secret-key = \"{secret}\"\n");
    assert!(matches!(refused(mixed.as_bytes(), true), Error::WrongSecretKey));
    assert!(matches!(refused(b"", false), Error::NoPublicKey));
    assert!(matches!(refused(b"curve\n    public-key = \"short\"", false), Error::NoPublicKey));
    assert!(matches!(refused(b"curve\n  public-key = \"x\"", false), Error::Line(2)));
    assert!(matches!(refused(b"\xff\xfe", false), Error::NotText));
    assert!(matches!(refused(&vec![b'#'; 64 * 1024 + 1], false), Error::NotText));
    let store = Store::load(directory.path()).unwrap();
    assert_eq!((store.len(), store.refused.len()), (0, 1));
    assert!(matches!(Store::load(&path), Err(Error::Io(_))));

    let mut certificate = Certificate::generate().unwrap();
    for (name, value) in [("a b", "x"), ("", "x"), ("a", "x\ny"), ("a", "\"'")] {
        assert!(matches!(certificate.set_metadata(name, value), Err(Error::Metadata)));
    }
}

#[test]
fn new_files_replace_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new");
    let there =
        |error: Error| matches!(error, Error::Io(error) if error.kind() == std::io::ErrorKind::AlreadyExists);
    let (first, second) = (Certificate::generate().unwrap(), Certificate::generate().unwrap());
    first.save_new(&path).unwrap();
    assert!(there(second.save_new(&path).unwrap_err()));
    std::fs::remove_file(secret_path(&path)).unwrap();
    assert!(there(second.save_new(&path).unwrap_err()), "the public one is");
    assert!(!secret_path(&path).exists(), "no half of a pair is left");
    assert_eq!(Certificate::load(&path).unwrap().public_key(), first.public_key());
    assert!(matches!(Certificate::public([7; 32]).save_new(&path), Err(Error::NoSecretKey)));
}
