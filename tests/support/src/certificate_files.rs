//! CURVE certificates and certificate stores: the functions of pinnace.h for them, over handles destroyed when
//! dropped.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use libc::{c_char, c_int, size_t};

use crate::Socket;
use crate::api::functions;
use crate::errno::{self, Outcome};

type P = *mut c_void;
type Text = *const c_char;

functions! {
    fn pinnace_cert_error() -> Text;
    fn pinnace_cert_new(public: Text, secret: Text) -> P;
    fn pinnace_cert_load(path: Text) -> P;
    fn pinnace_cert_load_public(path: Text) -> P;
    fn pinnace_cert_load_secret(path: Text) -> P;
    fn pinnace_cert_destroy(cert: P) -> c_int;
    fn pinnace_cert_save(cert: P, path: Text) -> c_int;
    fn pinnace_cert_save_public(cert: P, path: Text) -> c_int;
    fn pinnace_cert_save_secret(cert: P, path: Text) -> c_int;
    fn pinnace_cert_keys(cert: P, public: *mut c_char, secret: *mut c_char) -> c_int;
    fn pinnace_cert_apply(cert: P, socket: P) -> c_int;
    fn pinnace_cert_meta(cert: P, name: Text, buffer: *mut c_char, size: *mut size_t) -> c_int;
    fn pinnace_cert_set_meta(cert: P, name: Text, value: Text) -> c_int;
    fn pinnace_certstore_load(path: Text) -> P;
    fn pinnace_certstore_destroy(store: P) -> c_int;
    fn pinnace_certstore_size(store: P) -> c_int;
    fn pinnace_certstore_find(store: P, key: *const c_void, size: size_t) -> P;
    fn pinnace_certstore_refused(store: P, index: size_t, buffer: *mut c_char, size: *mut size_t) -> c_int;
}

/// The text of this thread's last certificate error.
pub fn last_error() -> String {
    // SAFETY: no arguments; a C string that stays until the next failure.
    unsafe { CStr::from_ptr(pinnace_cert_error()) }.to_str().expect("UTF-8").to_owned()
}

fn c(text: &str) -> CString {
    CString::new(text).expect("no NUL")
}

fn c_path(path: &Path) -> CString {
    c(path.to_str().expect("a path of UTF-8"))
}

fn handle(raw: P) -> Outcome<P> {
    if raw.is_null() { Err(errno::last()) } else { Ok(raw) }
}

/// Asks for the size first, with a buffer that is too small, then for the text.
fn text_of(call: impl Fn(*mut c_char, *mut size_t) -> c_int) -> Outcome<String> {
    let mut size = 0;
    match errno::check(call(std::ptr::null_mut(), &mut size)) {
        Err(crate::Errno(libc::ENOBUFS)) => {}
        Err(error) => return Err(error),
        Ok(_) => panic!("a text has its NUL at least"),
    }
    let mut buffer = vec![0_u8; size];
    errno::check(call(buffer.as_mut_ptr().cast(), &mut size))?;
    Ok(CString::from_vec_with_nul(buffer).expect("one NUL").into_string().expect("UTF-8"))
}

/// A certificate.
#[derive(Debug)]
pub struct Certificate(P);

impl Certificate {
    pub fn new(keys: Option<(&str, Option<&str>)>) -> Outcome<Certificate> {
        let public = keys.map(|(public, _)| c(public));
        let secret = keys.and_then(|(_, secret)| secret.map(c));
        let at = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        // SAFETY: C strings, or null.
        handle(unsafe { pinnace_cert_new(at(&public), at(&secret)) }).map(Certificate)
    }

    pub fn load(path: &Path) -> Outcome<Certificate> {
        Certificate::load_by(pinnace_cert_load, path)
    }

    pub fn load_public(path: &Path) -> Outcome<Certificate> {
        Certificate::load_by(pinnace_cert_load_public, path)
    }

    pub fn load_secret(path: &Path) -> Outcome<Certificate> {
        Certificate::load_by(pinnace_cert_load_secret, path)
    }

    fn load_by(load: unsafe fn(Text) -> P, path: &Path) -> Outcome<Certificate> {
        // SAFETY: a C string.
        handle(unsafe { load(c_path(path).as_ptr()) }).map(Certificate)
    }

    pub fn save(&self, path: &Path) -> Outcome<()> {
        self.save_by(pinnace_cert_save, path)
    }

    pub fn save_public(&self, path: &Path) -> Outcome<()> {
        self.save_by(pinnace_cert_save_public, path)
    }

    pub fn save_secret(&self, path: &Path) -> Outcome<()> {
        self.save_by(pinnace_cert_save_secret, path)
    }

    fn save_by(&self, save: unsafe fn(P, Text) -> c_int, path: &Path) -> Outcome<()> {
        // SAFETY: a handle, and a C string.
        errno::check(unsafe { save(self.0, c_path(path).as_ptr()) }).map(|_| ())
    }

    /// The public key, as Z85.
    pub fn public(&self) -> Outcome<String> {
        // SAFETY: room for 41 bytes, and null.
        self.key(|at, room| unsafe { pinnace_cert_keys(at, room, std::ptr::null_mut()) })
    }

    pub fn secret(&self) -> Outcome<String> {
        // SAFETY: room for 41 bytes, and null.
        self.key(|at, room| unsafe { pinnace_cert_keys(at, std::ptr::null_mut(), room) })
    }

    fn key(&self, call: impl Fn(P, *mut c_char) -> c_int) -> Outcome<String> {
        let mut room = vec![0xff_u8; 41];
        errno::check(call(self.0, room.as_mut_ptr().cast()))?;
        Ok(CString::from_vec_with_nul(room).expect("40 characters").into_string().expect("Z85"))
    }

    pub fn apply(&self, socket: &Socket) -> Outcome<()> {
        // SAFETY: handles in any state.
        errno::check(unsafe { pinnace_cert_apply(self.0, socket.raw()) }).map(|_| ())
    }

    pub fn meta(&self, name: &str) -> Outcome<String> {
        let name = c(name);
        // SAFETY: a handle, a C string, and a buffer of the given size.
        text_of(|buffer, size| unsafe { pinnace_cert_meta(self.0, name.as_ptr(), buffer, size) })
    }

    pub fn set_meta(&self, name: &str, value: &str) -> Outcome<()> {
        let (name, value) = (c(name), c(value));
        // SAFETY: a handle, and C strings.
        errno::check(unsafe { pinnace_cert_set_meta(self.0, name.as_ptr(), value.as_ptr()) }).map(|_| ())
    }

    /// Destroys the certificate; it may be destroyed already.
    pub fn destroy(&self) -> Outcome<()> {
        // SAFETY: a handle in any state.
        errno::check(unsafe { pinnace_cert_destroy(self.0) }).map(|_| ())
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}

/// A directory of certificates.
#[derive(Debug)]
pub struct Store(P);

impl Store {
    pub fn load(path: &Path) -> Outcome<Store> {
        // SAFETY: a C string.
        handle(unsafe { pinnace_certstore_load(c_path(path).as_ptr()) }).map(Store)
    }

    pub fn size(&self) -> Outcome<c_int> {
        // SAFETY: a handle in any state.
        errno::check(unsafe { pinnace_certstore_size(self.0) })
    }

    pub fn find(&self, key: &[u8]) -> Outcome<Certificate> {
        // SAFETY: a handle, and bytes.
        handle(unsafe { pinnace_certstore_find(self.0, key.as_ptr().cast(), key.len()) }).map(Certificate)
    }

    pub fn refused(&self, index: usize) -> Outcome<String> {
        // SAFETY: a handle, and a buffer of the given size.
        text_of(|buffer, size| unsafe { pinnace_certstore_refused(self.0, index, buffer, size) })
    }

    pub fn destroy(&self) -> Outcome<()> {
        // SAFETY: a handle in any state.
        errno::check(unsafe { pinnace_certstore_destroy(self.0) }).map(|_| ())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}
