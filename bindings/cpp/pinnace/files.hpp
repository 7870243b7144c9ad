/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* File transfer for C++17, on pinnace.h; link to libpinnace.
 *
 *     namespace files = pinnace::files;
 *     files::Server server(files::ServerOptions().folder("/photos", "photos").bind("tcp://127.0.0.1:*"));
 *     files::Client client(files::ClientOptions(server.endpoints()[0]));
 *     for (const files::Event &event : client.get("/photos/", "copy"))
 *         if (event.kind == files::EventKind::finished)
 *             std::cout << event.path << '\n';
 *
 * Errors are thrown as pinnace::Error: EINVAL for a text or path with a NUL, and those of pinnace_files.h. All objects
 * may be called from any thread until they are moved or destroyed, but one thread at a time takes the events of a
 * transfer, or waits for it. Virtual paths are UTF-8; paths of this host are any bytes. */

#ifndef PINNACE_FILES_HPP
#define PINNACE_FILES_HPP

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <pinnace/error.hpp>
#include <pinnace/files_options.hpp>

namespace pinnace::files {

/* A running server. The destructor ends it. */
class Server {
  public:
    explicit Server(const ServerOptions &options) : handle_(pinnace_files_server_start(options.handle())) {
        detail::checked(handle_.get(), handle_ == nullptr);
        const char *found;
        while ((found = pinnace_files_server_endpoint(handle_.get(), endpoints_.size())) != nullptr)
            endpoints_.emplace_back(found);
        detail::checked(errno == ENOENT ? 0 : -1);
    }
    /* Where it listens, with the ports that the system chose, in the order of `bind`. */
    std::vector<std::string> endpoints() const { return endpoints_; }
    /* Octets of content that were sent to all clients. */
    std::uint64_t sent_bytes() const {
        std::uint64_t bytes = 0;
        detail::checked(pinnace_files_server_sent(handle_.get(), &bytes));
        return bytes;
    }
    /* Ends it. Calls of other threads fail with EFAULT from then on. */
    void close() noexcept { pinnace_files_server_close(handle_.get()); }

  private:
    detail::Handle<pinnace_files_server_t, pinnace_files_server_close> handle_;
    std::vector<std::string> endpoints_;
};

enum class EventKind {
    listed = PINNACE_FILES_LISTED,     /* path, bytes, type, mode, mtime_ns, other */
    begun = PINNACE_FILES_BEGUN,       /* path, bytes */
    progress = PINNACE_FILES_PROGRESS, /* bytes */
    finished = PINNACE_FILES_FINISHED, /* path, bytes, digest */
    removed = PINNACE_FILES_REMOVED,   /* path, here */
    moved = PINNACE_FILES_MOVED,       /* path, other, here */
    planned = PINNACE_FILES_PLANNED,   /* path, removal */
    current = PINNACE_FILES_CURRENT,
    failed = PINNACE_FILES_FAILED,   /* path, error, text, here */
    ended = PINNACE_FILES_ENDED,     /* files, bytes, failed */
    aborted = PINNACE_FILES_ABORTED, /* error, text */
    linked = PINNACE_FILES_LINKED,   /* path, other */
    lost = PINNACE_FILES_LOST,       /* error, text */
};

enum class FileType {
    none = 0,
    file = PINNACE_FILES_FILE,
    directory = PINNACE_FILES_DIRECTORY,
    link = PINNACE_FILES_LINK,
};

/* What happens during a transfer. The kind tells which members are set. */
struct Event {
    EventKind kind = EventKind::current;
    std::string path;                     /* in a listing: below the path that is listed */
    std::string other;                    /* where it was moved to; the name it has; in a listing: where a link leads */
    std::error_code error;                /* an errno */
    std::string text;                     /* of the error */
    std::uint64_t files = 0;              /* that were transferred, or listed */
    std::uint64_t bytes = 0;              /* a file's size; octets more; octets in all */
    std::uint64_t failed = 0;             /* files that failed */
    bool here = false;                    /* the same was done here; it failed on the disk of this host */
    bool removal = false;                 /* it would be removed */
    FileType type = FileType::none;       /* in a listing */
    std::uint32_t mode = 0;               /* permission bits */
    std::int64_t mtime_ns = 0;            /* nanoseconds since 1970 */
    std::array<unsigned char, 32> digest{}; /* BLAKE3 */
};

/* A file that failed, and why. */
struct Failure {
    std::string path;
    std::error_code error;
    std::string text;
    bool here = false; /* it failed on the disk of this host */
};

/* What a transfer has come to. */
struct Report {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::vector<Failure> failed;
};

namespace detail {

using namespace pinnace::detail;

inline Event event_of(const pinnace_files_event_t &from) {
    const auto text = [](const char *found) { return found == nullptr ? std::string() : std::string(found); };
    Event event;
    event.kind = static_cast<EventKind>(from.kind);
    event.path = text(from.path);
    event.other = text(from.other);
    event.error = std::error_code(from.error, std::generic_category());
    event.text = text(from.text);
    event.files = from.files;
    event.bytes = from.bytes;
    event.failed = from.failed;
    event.here = from.here != 0;
    event.removal = from.removal != 0;
    event.type = static_cast<FileType>(from.type);
    event.mode = from.mode;
    event.mtime_ns = from.mtime_ns;
    std::copy(std::begin(from.digest), std::end(from.digest), event.digest.begin());
    return event;
}

} // namespace detail

/* A transfer that is under way. The destructor cancels it, unless it is over. */
class Transfer {
  public:
    /* Waits for the next event. None: the transfer is over. EAGAIN: timeout. */
    std::optional<Event> next_event(Millis timeout = forever) {
        pinnace_files_event_t event{};
        event.size = sizeof event;
        if (detail::checked(pinnace_files_transfer_next_event(handle_.get(), &event, timeout.count())) == 0)
            return std::nullopt;
        return detail::event_of(event);
    }
    /* As above, and stores an error there. None: the transfer is over, or there is an error. */
    std::optional<Event> next_event(Millis timeout, std::error_code &error) {
        pinnace_files_event_t event{};
        event.size = sizeof event;
        const int found = pinnace_files_transfer_next_event(handle_.get(), &event, timeout.count());
        if (!detail::noted(found < 0, error) || found == 0)
            return std::nullopt;
        return detail::event_of(event);
    }

    /* Takes all events, and waits until the transfer is over. Throws why it is not complete; files that failed are in
     * the report. EAGAIN: timeout. */
    Report wait(Millis timeout = forever) {
        pinnace_files_report_t told{};
        told.size = sizeof told;
        detail::checked(pinnace_files_transfer_wait(handle_.get(), &told, timeout.count()));
        Report report{told.files, told.bytes, {}};
        pinnace_files_failure_t found{};
        found.size = sizeof found;
        while (report.failed.size() < told.failed) {
            detail::checked(pinnace_files_transfer_failure(handle_.get(), report.failed.size(), &found));
            const std::error_code error(found.error, std::generic_category());
            report.failed.push_back({found.path, error, found.text, found.here != 0});
        }
        return report;
    }

    /* Ends the transfer soon. */
    void cancel() { detail::checked(pinnace_files_transfer_cancel(handle_.get())); }

    /* A descriptor for event loops: readable while an event may be there, and once the transfer is over. Then call
     * next_event with timeout 0, until it finds EAGAIN. */
    int fd() { return detail::checked(pinnace_files_transfer_fd(handle_.get())); }

    /* The events, in their order. The iterators of one transfer share their place. */
    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Event;
        using difference_type = std::ptrdiff_t;
        using pointer = const Event *;
        using reference = const Event &;

        Iterator() = default;
        explicit Iterator(Transfer &of) : of_(&of), event_(of.next_event()) {}
        reference operator*() const { return *event_; }
        pointer operator->() const { return &*event_; }
        Iterator &operator++() {
            event_ = of_->next_event();
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const Iterator &other) const { return event_.has_value() == other.event_.has_value(); }
        bool operator!=(const Iterator &other) const { return !(*this == other); }

      private:
        Transfer *of_ = nullptr;
        std::optional<Event> event_;
    };
    Iterator begin() { return Iterator(*this); }
    Iterator end() { return Iterator(); }

  private:
    friend class Client;
    explicit Transfer(pinnace_files_transfer_t *handle) : handle_(handle) {
        detail::checked(handle, handle == nullptr);
    }

    detail::Handle<pinnace_files_transfer_t, pinnace_files_transfer_close> handle_;
};

/* A connection to a server, made in the background. Transfers keep it. */
class Client {
  public:
    explicit Client(const ClientOptions &options) : handle_(pinnace_files_client_connect(options.handle())) {
        detail::checked(handle_.get(), handle_ == nullptr);
    }

    /* Begins to fetch a file, or a directory with all below it. With a slash at the end of `path`, the directory's
     * content goes to `to`; without, the directory goes into `to` by its name. */
    Transfer get(const std::string &path, const std::filesystem::path &to, const Rules &rules = {}) {
        return Transfer(pinnace_files_get(handle_.get(), detail::c_text(path), detail::c_text(to), rules.handle()));
    }
    /* Begins to upload in the same way. */
    Transfer put(const std::filesystem::path &from, const std::string &path, const Rules &rules = {}) {
        return Transfer(pinnace_files_put(handle_.get(), detail::c_text(from), detail::c_text(path), rules.handle()));
    }
    /* Fetches a directory, and then what changes in it, until the transfer is cancelled. */
    Transfer follow(const std::string &path, const std::filesystem::path &to, const Rules &rules = {}) {
        return Transfer(pinnace_files_follow(handle_.get(), detail::c_text(path), detail::c_text(to), rules.handle()));
    }
    /* Lists the names below a path. */
    Transfer list(const std::string &path) { return Transfer(pinnace_files_list(handle_.get(), detail::c_text(path))); }
    /* Fetches, and discards what arrives once it is verified. */
    Transfer discard(const std::string &path) {
        return Transfer(pinnace_files_discard(handle_.get(), detail::c_text(path)));
    }
    /* Releases it, and transfers go on. Calls of other threads fail with EFAULT from then on. */
    void close() noexcept { pinnace_files_client_close(handle_.get()); }

  private:
    detail::Handle<pinnace_files_client_t, pinnace_files_client_close> handle_;
};

} // namespace pinnace::files

#endif /* PINNACE_FILES_HPP */
