//! Frames of FILEMQ, from either side: malformed, or a message that is written as a frame which means the same. Its
//! options, headers and entries are read too.

use pinnace_files::wire::{Entries, Headers, Message, Request};

pub fn run(data: &[u8]) {
    let Ok(message) = Message::read(data) else { return };
    let frame = message.to_frame();
    assert_eq!(Message::read(&frame), Ok(message));
    match message {
        Message::Icanhaz { path, options, cache } => {
            assert!(cache.iter().count() <= frame.len());
            if let Some(Ok(request)) = Request::read(path, options) {
                let again = request.to_frame();
                let Ok(Message::Icanhaz { path, options, .. }) = Message::read(&again) else {
                    panic!("no request")
                };
                assert_eq!(Request::read(path, options), Some(Ok(request)));
            }
        }
        Message::Cheezburger(burger) => {
            if let Ok(headers) = Headers::read(burger.headers) {
                assert_eq!(Headers::read(headers.write().hash()).as_ref(), Ok(&headers));
            }
            let most = burger.chunk.len();
            for has_extra in [false, true] {
                assert!(Entries::of_list(burger.chunk).with_extra(has_extra).count() <= most);
                assert!(Entries::of_pack(burger.chunk).with_extra(has_extra).count() <= most);
            }
        }
        _ => {}
    }
}
