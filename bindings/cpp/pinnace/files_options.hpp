/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* The options of servers and clients of file transfer, and the rules of transfers. */

#ifndef PINNACE_FILES_OPTIONS_HPP
#define PINNACE_FILES_OPTIONS_HPP

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <pinnace/error.hpp>

namespace pinnace::files {

namespace detail {

using namespace pinnace::detail;

template <typename Object, int (*release)(Object *)> struct Release {
    void operator()(Object *handle) const noexcept { release(handle); }
};
/* An object of C, which is released with it. */
template <typename Object, int (*release)(Object *)>
using Handle = std::unique_ptr<Object, Release<Object, release>>;

} // namespace detail

enum class Right { read = PINNACE_FILES_READ, write = PINNACE_FILES_WRITE };

/* The configuration of a server; any number of servers can be started with it. */
class ServerOptions {
  public:
    ServerOptions() : handle_(pinnace_files_server_options_new()) {
        detail::checked(handle_.get(), handle_ == nullptr);
    }

    /* Sets an option by its name and as text, like pinnace_files_server_options_set. */
    ServerOptions &set(const std::string &key, const std::string &value) {
        detail::checked(pinnace_files_server_options_set(handle_.get(), detail::c_text(key), detail::c_text(value)));
        return *this;
    }
    /* Serves a folder of this host below a virtual path such as "/data". */
    ServerOptions &folder(const std::string &alias, const std::filesystem::path &path) {
        return add(alias, path, 0);
    }
    /* As `folder`, and clients may upload to it. */
    ServerOptions &writable_folder(const std::string &alias, const std::filesystem::path &path) {
        return add(alias, path, 1);
    }
    ServerOptions &bind(const std::string &endpoint) {
        detail::checked(pinnace_files_server_options_bind(handle_.get(), detail::c_text(endpoint)));
        return *this;
    }
    /* How many threads read files, 1 to 1024. */
    ServerOptions &workers(unsigned count) { return set("workers", std::to_string(count)); }
    /* Serves only clients that name the same domain. */
    ServerOptions &domain(const std::string &name) { return set("domain", name); }
    /* A followed file is sent when its writer closes it, or has not written for this time. */
    ServerOptions &quiet(Millis time) { return set("quiet_ms", std::to_string(time.count())); }
    /* How often a followed folder that the system cannot watch is listed again, at least 10 ms. */
    ServerOptions &rescan(Millis time) { return set("rescan_ms", std::to_string(time.count())); }
    /* How long the parts of uploads that ended early are kept. */
    ServerOptions &part_age(Millis time) { return set("part_age_ms", std::to_string(time.count())); }
    /* The most frames that wait for each client, in each direction; 0: no limit. */
    ServerOptions &high_water_mark(std::uint32_t frames) { return set("high_water_mark", std::to_string(frames)); }

    /* Encrypts all connections with the keys of a certificate from pinnace_cert_load, or of a file as `pinnace keygen
     * NAME` writes it. */
    ServerOptions &curve(void *certificate) {
        detail::checked(pinnace_files_server_options_curve(handle_.get(), certificate));
        return *this;
    }
    ServerOptions &cert(const std::filesystem::path &file) {
        detail::checked(pinnace_files_server_options_cert(handle_.get(), detail::c_text(file)));
        return *this;
    }
    /* Add a user: with a public key, 40 characters of Z85 or its certificate's file, or with a password, which is sent
     * in clear. With the first one, only clients that are users are admitted. */
    ServerOptions &user_by_key(const std::string &name, const std::string &key) {
        detail::checked(pinnace_files_server_options_user(handle_.get(), detail::c_text(name), detail::c_text(key)));
        return *this;
    }
    ServerOptions &user_by_file(const std::string &name, const std::filesystem::path &file) {
        detail::checked(
            pinnace_files_server_options_user_file(handle_.get(), detail::c_text(name), detail::c_text(file)));
        return *this;
    }
    ServerOptions &user_by_password(const std::string &name, const std::string &password) {
        detail::checked(
            pinnace_files_server_options_password(handle_.get(), detail::c_text(name), detail::c_text(password)));
        return *this;
    }
    /* Gives a user, or "*", which is anybody, a right to a virtual path and all below it. Without any grant every
     * client may do everything; with the first one, nobody has a right that was not granted. */
    ServerOptions &grant(const std::string &user, const std::string &path, Right right) {
        detail::checked(pinnace_files_server_options_grant(handle_.get(), detail::c_text(user), detail::c_text(path),
                                                           static_cast<int>(right)));
        return *this;
    }

    const pinnace_files_server_options_t *handle() const noexcept { return handle_.get(); }

  private:
    ServerOptions &add(const std::string &alias, const std::filesystem::path &path, int writable) {
        detail::checked(
            pinnace_files_server_options_folder(handle_.get(), detail::c_text(alias), detail::c_text(path), writable));
        return *this;
    }

    detail::Handle<pinnace_files_server_options_t, pinnace_files_server_options_destroy> handle_;
};

/* The configuration of a client of the server at an endpoint. */
class ClientOptions {
  public:
    explicit ClientOptions(const std::string &endpoint)
        : handle_(pinnace_files_client_options_new(detail::c_text(endpoint))) {
        detail::checked(handle_.get(), handle_ == nullptr);
    }

    /* Sets an option by its name and as text, like pinnace_files_client_options_set. */
    ClientOptions &set(const std::string &key, const std::string &value) {
        detail::checked(pinnace_files_client_options_set(handle_.get(), detail::c_text(key), detail::c_text(value)));
        return *this;
    }
    /* The domain that the server has to have. */
    ClientOptions &domain(const std::string &name) { return set("domain", name); }
    /* How long the server may take to answer. */
    ClientOptions &patience(Millis time) { return set("patience_ms", std::to_string(time.count())); }
    /* The most bytes that the server sends ahead, at least 1 MiB. A fast link needs its bandwidth times its round
     * trip. */
    ClientOptions &window_max(std::uint64_t bytes) { return set("window_max", std::to_string(bytes)); }
    /* The most bytes of a chunk, 1 to 1 MiB. */
    ClientOptions &chunk(std::uint32_t octets) { return set("chunk", std::to_string(octets)); }
    /* The most bytes a second, in each direction; a chunk then has at most 64 KiB. 0: no limit. */
    ClientOptions &limit_rate(std::uint64_t bytes_per_s) { return set("limit_rate", std::to_string(bytes_per_s)); }
    /* The most frames that wait, in each direction; 0: no limit. */
    ClientOptions &high_water_mark(std::uint32_t frames) { return set("high_water_mark", std::to_string(frames)); }
    /* How long the parts of transfers that ended early are kept. */
    ClientOptions &part_age(Millis time) { return set("part_age_ms", std::to_string(time.count())); }

    /* Encrypt the connection. `curve` takes the client's keys from a certificate of pinnace_cert_load, and the server's
     * public key as 40 characters of Z85; `cert` takes both from files as `pinnace keygen NAME` writes them. */
    ClientOptions &curve(void *certificate, const std::string &server_key) {
        detail::checked(pinnace_files_client_options_curve(handle_.get(), certificate, detail::c_text(server_key)));
        return *this;
    }
    ClientOptions &cert(const std::filesystem::path &file, const std::filesystem::path &server_file) {
        detail::checked(
            pinnace_files_client_options_cert(handle_.get(), detail::c_text(file), detail::c_text(server_file)));
        return *this;
    }
    /* Gives a user's name and password, which are sent in clear: not together with keys. */
    ClientOptions &password(const std::string &user, const std::string &password) {
        detail::checked(
            pinnace_files_client_options_password(handle_.get(), detail::c_text(user), detail::c_text(password)));
        return *this;
    }

    const pinnace_files_client_options_t *handle() const noexcept { return handle_.get(); }

  private:
    detail::Handle<pinnace_files_client_options_t, pinnace_files_client_options_destroy> handle_;
};

/* Which files of the target are replaced: those whose size or time differs from the source's; of these, only those that
 * are not newer than the source's; none. */
enum class Existing { different, not_newer, nothing };

/* The rules of a transfer. By default, files that differ in size or time are replaced, and nothing is removed. */
class Rules {
  public:
    Rules() : handle_(pinnace_files_rules_new()) { detail::checked(handle_.get(), handle_ == nullptr); }

    /* Sets a rule by its name and as text, like pinnace_files_rules_set. */
    Rules &set(const std::string &key, const std::string &value) {
        detail::checked(pinnace_files_rules_set(handle_.get(), detail::c_text(key), detail::c_text(value)));
        return *this;
    }
    /* Leave out, or keep, the names that match. The first pattern that matches a name counts. */
    Rules &exclude(const std::string &pattern) {
        detail::checked(pinnace_files_rules_exclude(handle_.get(), detail::c_text(pattern)));
        return *this;
    }
    Rules &include(const std::string &pattern) {
        detail::checked(pinnace_files_rules_include(handle_.get(), detail::c_text(pattern)));
        return *this;
    }
    Rules &existing(Existing which) {
        return set("existing", which == Existing::different   ? "different"
                               : which == Existing::not_newer ? "not_newer"
                                                              : "nothing");
    }
    /* Files of the same size are compared by their content. */
    Rules &checksum(bool on = true) { return flag("checksum", on); }
    /* A large file that differs is sent whole, and not only its blocks that differ. */
    Rules &whole_files(bool on = true) { return flag("whole_files", on); }
    /* What the source does not have is removed at the target: at most `most` files and directories by the transfer, and
     * none of a listing or directory that has more, which fails with E2BIG. If the source is empty, it is a failure
     * EACCES, unless `force` is set. */
    Rules &deletion(std::optional<std::uint64_t> most = std::nullopt, bool force = false) {
        set("deletion_most", std::to_string(most.value_or(std::numeric_limits<std::uint64_t>::max())));
        return flag("deletion", true).flag("deletion_force", force);
    }
    /* Chunks that shrink by an eighth travel compressed (Zstandard). */
    Rules &compress(bool on = true) { return flag("compress", on); }
    /* Holes are not sent, and zeros become holes; no room is reserved on the disk. */
    Rules &sparse(bool on = true) { return flag("sparse", on); }
    /* A file with several names in a listing is sent once; its other names become hard links. */
    Rules &hard_links(bool on = true) { return flag("hard_links", on); }
    /* User and group ids are kept; a file whose ids may not be set fails. */
    Rules &owner(bool on = true) { return flag("owner", on); }
    /* Extended attributes of the namespace user. are kept. */
    Rules &xattrs(bool on = true) { return flag("xattrs", on); }
    /* A file gets its name only when its content is on the disk. */
    Rules &fsync(bool on = true) { return flag("fsync", on); }
    /* Nothing is changed; EventKind::planned tells what would be. */
    Rules &dry_run(bool on = true) { return flag("dry_run", on); }

    const pinnace_files_rules_t *handle() const noexcept { return handle_.get(); }

  private:
    Rules &flag(const std::string &key, bool on) { return set(key, on ? "1" : "0"); }

    detail::Handle<pinnace_files_rules_t, pinnace_files_rules_destroy> handle_;
};

} // namespace pinnace::files

#endif /* PINNACE_FILES_OPTIONS_HPP */
