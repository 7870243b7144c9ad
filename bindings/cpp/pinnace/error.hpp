/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* Errors and times, for the headers of guaranteed delivery and file transfer. */

#ifndef PINNACE_ERROR_HPP
#define PINNACE_ERROR_HPP

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>

#include <pinnace.h>

namespace pinnace {

using Millis = std::chrono::milliseconds;

/* As a time: no limit. As a delay: a growing delay. */
constexpr Millis forever{-1};

/* code() is an errno, what() its text. */
class Error : public std::system_error {
  public:
    Error(int number, const std::string &words) : std::system_error(number, std::generic_category(), words) {}
};

namespace detail {

[[noreturn]] inline void fail() {
    const int number = errno;
    throw Error(number, pinnace_client_error());
}

template <typename Returned> Returned checked(Returned returned, bool failed) {
    if (failed)
        fail();
    return returned;
}

inline int checked(int returned) { return checked(returned, returned < 0); }

/* A text or path for C. Throws Error (EINVAL) for one with a NUL, at which C would cut it off. */
inline const char *c_text(const std::string &text) {
    if (text.find('\0') != std::string::npos)
        throw Error(EINVAL, "a text or path has a NUL");
    return text.c_str();
}
inline const char *c_text(const std::filesystem::path &path) { return c_text(path.native()); }

/* Like checked, but stores the error in `error`. Returns true on success. */
inline bool noted(bool failed, std::error_code &error) noexcept {
    error = failed ? std::error_code(errno, std::generic_category()) : std::error_code();
    return !failed;
}

/* The number of handlers that are running on this thread, nested. */
inline int &depth() {
    thread_local int handlers = 0;
    return handlers;
}

struct Inside {
    Inside() { depth()++; }
    ~Inside() { depth()--; }
};

} // namespace detail

} // namespace pinnace

#endif /* PINNACE_ERROR_HPP */
