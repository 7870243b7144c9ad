//! Addresses of the network interfaces (getifaddrs(3)).

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of the interface called `name`, in the system's order.
pub fn addresses(name: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for_each(|interface, address| {
        if interface.to_bytes() == name.as_bytes() {
            found.push(address);
        }
    });
    found
}

/// The index of the interface that has this address.
pub fn index_of(address: IpAddr) -> Option<u32> {
    let mut found = None;
    for_each(|interface, other| {
        if other == address && found.is_none() {
            found = interface.to_str().ok().and_then(index);
        }
    });
    found
}

/// Calls `visit` with each address and its interface's name.
fn for_each(mut visit: impl FnMut(&CStr, IpAddr)) {
    let mut list = std::ptr::null_mut();
    // SAFETY: the list is only read, and freed once.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return;
        }
        let mut entry = list;
        while !entry.is_null() {
            let this = &*entry;
            if !this.ifa_addr.is_null()
                && let Some(address) = address(this.ifa_addr)
            {
                visit(CStr::from_ptr(this.ifa_name), address);
            }
            entry = this.ifa_next;
        }
        libc::freeifaddrs(list);
    }
}

/// # Safety
/// `from` must point to a socket address of its family's size.
unsafe fn address(from: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise; the family says which structure it is.
    unsafe {
        match i32::from((*from).sa_family) {
            libc::AF_INET => {
                let v4 = &*from.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = &*from.cast::<libc::sockaddr_in6>();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// The index of the interface called `name` (if_nametoindex(3)), as IPv6 scopes use it.
pub fn index(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a valid C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}
