/* This Source Code Form is subject to the terms of the Mozilla Public License, v. 2.0. If a copy of the MPL was
 * not distributed with this file, You can obtain one at https://mozilla.org/MPL/2.0/. */

/* File transfer: a part of Pinnace's C interface, which pinnace.h includes. */
#ifndef PINNACE_FILES_H
#define PINNACE_FILES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Files and folders between a server and its clients; docs/files.md states the promise. A function that fails
 * returns -1 or NULL, sets errno, and stores a text: pinnace_files_error. Every function may be called from any
 * thread. Invalid or released objects are EFAULT, also those that were made before a fork, and so are null pointers,
 * except where NULL has a stated meaning. Virtual paths, names of users and patterns are UTF-8; paths of this host
 * are any bytes.
 *
 * Errors of a transfer: EHOSTUNREACH: no server answers within patience_ms; EACCES: the server refuses the client,
 * for its key, password or domain; ECANCELED: it was cancelled; EPROTO: the other side does not follow the protocol.
 * Errors of a file: ENOENT: nothing has this path; EACCES: the file system or the server's access rules forbid it;
 * EBUSY: another transfer writes it, for more than 15 s; ELOOP: it is neither a file, nor a directory, nor a link, or
 * the path leads over a link; ESTALE: it was changed or replaced meanwhile; ENOSPC: no room on the disk; EIO: the
 * disk failed; E2BIG: a limit was reached; EINVAL: the path or request is invalid; EBADMSG: the octets are not those
 * that the sender announced; EREMOTEIO: an error of a later version. */
typedef struct pinnace_files_server_options_t pinnace_files_server_options_t;
typedef struct pinnace_files_server_t pinnace_files_server_t;
typedef struct pinnace_files_client_options_t pinnace_files_client_options_t;
typedef struct pinnace_files_client_t pinnace_files_client_t;
typedef struct pinnace_files_rules_t pinnace_files_rules_t;
typedef struct pinnace_files_transfer_t pinnace_files_transfer_t;

const char *pinnace_files_error(void); /* of the calling thread, as pinnace_client_error; until its next failure */

/* Options of a server; they serve for any number of servers. Each is set as text. Times are 0 to 86400000 ms, except
 * where stated:
 *   domain             serves only clients that name the same domain; it protects from mistakes, not from attackers
 *   workers            how many threads read files, 1 to 1024 [the processors, 2 to 16]
 *   quiet_ms           a followed file is sent when its writer closes it, or has not written for this time [1000]
 *   rescan_ms          how often a followed folder that the system cannot watch is listed again, at least 10 [10000]
 *   part_age_ms        how long the parts of uploads that ended early are kept, up to 10 years [14 days]
 *   high_water_mark    the most frames that wait for each client, in each direction [0: no limit] */
pinnace_files_server_options_t *pinnace_files_server_options_new(void);
int pinnace_files_server_options_set(pinnace_files_server_options_t *options, const char *key, const char *value);
/* Serves a folder of this host below a virtual path such as "/data". Clients may upload to it if `writable` is not
 * 0. */
int pinnace_files_server_options_folder(pinnace_files_server_options_t *options, const char *alias, const char *path,
                                        int writable);
int pinnace_files_server_options_bind(pinnace_files_server_options_t *options, const char *endpoint);

/* Encrypts all connections (CURVE) with the keys of a certificate of pinnace_cert_load (ENOKEY: it has no secret
 * key), or of a file as `pinnace keygen NAME` writes it. Every client that knows the public key is admitted, unless
 * there are users. */
int pinnace_files_server_options_curve(pinnace_files_server_options_t *options, void *cert);
int pinnace_files_server_options_cert(pinnace_files_server_options_t *options, const char *file);

/* Adds a user. With the first one, only clients that are users are admitted. A user has a public key, given as 40
 * characters of Z85 or by its certificate's file; or a password, which is sent in clear. */
int pinnace_files_server_options_user(pinnace_files_server_options_t *options, const char *name,
                                      const char *z85_public_key);
int pinnace_files_server_options_user_file(pinnace_files_server_options_t *options, const char *name, const char *file);
int pinnace_files_server_options_password(pinnace_files_server_options_t *options, const char *name,
                                          const char *password);

#define PINNACE_FILES_READ 0  /* to list, fetch and follow */
#define PINNACE_FILES_WRITE 1 /* to upload, to folders that are writable */

/* Gives a user, or "*", which is anybody, a right to a virtual path and all below it. Without any grant every client
 * may do everything; with the first one, nobody has a right that was not granted. */
int pinnace_files_server_options_grant(pinnace_files_server_options_t *options, const char *user, const char *path,
                                       int right);
int pinnace_files_server_options_destroy(pinnace_files_server_options_t *options);

/* Errors: those of a folder that cannot be opened, and of binding; EINVAL: users have keys and passwords, or keys
 * without `curve`; an alias is invalid, or two folders have it; a right is of an unknown user, or to a path that is not
 * served; a user is given twice with another key or password, or two have the same key. */
pinnace_files_server_t *pinnace_files_server_start(const pinnace_files_server_options_t *options);
/* Where it listens, with the ports that the system chose, in the order of the calls of bind. ENOENT: `index` is not
 * less than their number. Valid until the server is closed. */
const char *pinnace_files_server_endpoint(pinnace_files_server_t *server, size_t index);
/* Writes how many bytes of content it has sent to all clients. */
int pinnace_files_server_sent(pinnace_files_server_t *server, uint64_t *bytes);
/* Ends it, and returns when its threads have ended. */
int pinnace_files_server_close(pinnace_files_server_t *server);

/* Options of a client, for the server at an endpoint; they serve for any number of clients. Each is set as text:
 *   domain             the domain that the server has to have
 *   patience_ms        how long the server may take to answer, 1 to 86400000 [10000]
 *   window_max         the most bytes that the server sends ahead, at least 1 MiB [16 MiB]. A fast link needs its
 *                      bandwidth times its round trip; a server sends at most 64 MiB ahead
 *   chunk              the most bytes of a chunk, 1 to 1 MiB [512 KiB]
 *   limit_rate         the most bytes a second, in each direction [0: no limit]; then a chunk has at most 64 KiB
 *   part_age_ms        how long the parts of transfers that ended early are kept, up to 10 years [14 days]
 *   high_water_mark    the most frames that wait, in each direction [0: no limit] */
pinnace_files_client_options_t *pinnace_files_client_options_new(const char *endpoint);
int pinnace_files_client_options_set(pinnace_files_client_options_t *options, const char *key, const char *value);

/* Encrypts the connection (CURVE). `curve` takes the client's keys from a certificate of pinnace_cert_load, and the
 * server's public key as 40 characters of Z85; `cert` takes both from files as `pinnace keygen NAME` writes them. */
int pinnace_files_client_options_curve(pinnace_files_client_options_t *options, void *cert, const char *z85_server_key);
int pinnace_files_client_options_cert(pinnace_files_client_options_t *options, const char *file,
                                      const char *server_file);
/* Gives a user's name and password, which are sent in clear: not together with keys. */
int pinnace_files_client_options_password(pinnace_files_client_options_t *options, const char *user,
                                          const char *password);
int pinnace_files_client_options_destroy(pinnace_files_client_options_t *options);

/* Connects in the background: transfers tell if no server answers. EINVAL: the endpoint; or keys and a password. */
pinnace_files_client_t *pinnace_files_client_connect(const pinnace_files_client_options_t *options);
/* Releases the client. Its transfers go on until they are over or closed; the connection ends with the last of them,
 * which takes up to 0.1 s if the server does not read, or is not there. */
int pinnace_files_client_close(pinnace_files_client_t *client);

/* Rules of transfers; they serve for any number of transfers. Each is set as text; those without a default are 0 or 1
 * [0]:
 *   existing           which files of the target are replaced: `different`, those whose size or time differs from the
 *                      source's; `not_newer`, of these only those that are not newer than the source's; `nothing`
 *                      [different]
 *   checksum           1: files of the same size are compared by their content
 *   whole_files        1: a large file that differs is sent whole, and not only its blocks that differ
 *   deletion           1: what the source does not have is removed at the target
 *   deletion_most      the transfer removes at most so many files and directories; more fail: E2BIG [no limit]
 *   deletion_force     1: an empty source removes everything at the target; without, that is EACCES
 *   compress           1: chunks that shrink by an eighth travel compressed (Zstandard)
 *   sparse             1: holes are not sent, and zeros become holes; no room is reserved on the disk
 *   hard_links         1: a file with several names in a listing is sent once; its other names become hard links
 *   owner              1: user and group ids are kept; a file whose ids may not be set fails
 *   xattrs             1: extended attributes of the namespace user. are kept
 *   fsync              1: a file gets its name only when its content is on the disk (fsync)
 *   dry_run            1: nothing is changed; PINNACE_FILES_PLANNED tells what would be */
pinnace_files_rules_t *pinnace_files_rules_new(void);
int pinnace_files_rules_set(pinnace_files_rules_t *rules, const char *key, const char *value);
/* Leave out, or keep, the names that match. The first pattern that matches a name counts. `*` and `?` match no
 * slash, `[abc]` is one of some characters, and `**` between slashes any directories. A pattern that begins with a
 * slash matches from the root of the transfer on, others at the end of a path; one that ends with a slash matches
 * directories only. */
int pinnace_files_rules_exclude(pinnace_files_rules_t *rules, const char *pattern);
int pinnace_files_rules_include(pinnace_files_rules_t *rules, const char *pattern);
int pinnace_files_rules_destroy(pinnace_files_rules_t *rules);

/* Begins to fetch a file, or a directory with all below it. `path` is a virtual path of the server, such as
 * "/data/a"; with a slash at its end, the directory's content goes to `to`; without, the directory goes into `to` by
 * its name. `rules` NULL: files that differ in size or time are replaced, and nothing is removed. A path with which
 * nothing can be done, such as one that does not exist, is a failure in the report, and no error of this call. */
pinnace_files_transfer_t *pinnace_files_get(pinnace_files_client_t *client, const char *path, const char *to,
                                            const pinnace_files_rules_t *rules);
/* Begins to upload in the same way, from a path of this host to a virtual path. */
pinnace_files_transfer_t *pinnace_files_put(pinnace_files_client_t *client, const char *from, const char *path,
                                            const pinnace_files_rules_t *rules);
/* Fetches a directory, and then what changes in it, until the transfer is cancelled. */
pinnace_files_transfer_t *pinnace_files_follow(pinnace_files_client_t *client, const char *path, const char *to,
                                               const pinnace_files_rules_t *rules);
/* Lists the names below a path. After a lost connection the names come again. */
pinnace_files_transfer_t *pinnace_files_list(pinnace_files_client_t *client, const char *path);
/* Fetches, and discards what arrives once it is verified. */
pinnace_files_transfer_t *pinnace_files_discard(pinnace_files_client_t *client, const char *path);

/* Kinds of events, and the members that they set. A path is a virtual one; of an upload, that at the server, or the
 * path of this host if the source failed; of LISTED, a name below the path of the transfer. Octets of it that are not
 * UTF-8 are replaced by U+FFFD; in a listing they are as they are. */
#define PINNACE_FILES_LISTED 1   /* a name, in a listing: path, bytes, type, mode, mtime_ns, other */
#define PINNACE_FILES_BEGUN 2    /* a file begins that is not a small one: path, bytes */
#define PINNACE_FILES_PROGRESS 3 /* further octets were written, or of an upload were sent: bytes */
#define PINNACE_FILES_FINISHED 4 /* a file is whole and in its place: path, bytes, digest */
#define PINNACE_FILES_REMOVED 5  /* the source no longer has a path: path, here */
#define PINNACE_FILES_MOVED 6    /* the source has moved a path: path, other, here */
#define PINNACE_FILES_PLANNED 7  /* of a dry run: a path would be made, replaced or removed: path, removal */
#define PINNACE_FILES_CURRENT 8  /* of a path that is followed: everything in its last listing is here */
#define PINNACE_FILES_FAILED 9   /* a file failed; the others go on: path, error, text, here */
#define PINNACE_FILES_ENDED 10   /* the transfer is complete: files, bytes, failed */
#define PINNACE_FILES_ABORTED 11 /* the transfer has ended before it was complete: error, text */
#define PINNACE_FILES_LINKED 12  /* a file that is here has another name too: path, other (the name it has) */
#define PINNACE_FILES_LOST 13    /* the server does not answer, and is tried again (follow): error, text */

/* What a name in a listing is. */
#define PINNACE_FILES_FILE 1
#define PINNACE_FILES_DIRECTORY 2
#define PINNACE_FILES_LINK 3

typedef struct pinnace_files_event_t {
    size_t size; /* bytes of this struct, set by the caller; later versions append members */
    int kind;
    int error;              /* an errno */
    const char *path;       /* in a listing: below the path that is listed; empty: that path itself */
    const char *other;      /* where it was moved to; the name it has; in a listing: where a link leads */
    const char *text;       /* of the error */
    uint64_t files;         /* that were transferred, or listed */
    uint64_t bytes;         /* the file's size; further octets; octets of all files */
    uint64_t failed;        /* files that failed */
    int here;               /* 1: it was removed or moved at the target, too; it failed on the disk of this host */
    int removal;            /* 1: it would be removed */
    int type;               /* PINNACE_FILES_FILE and following */
    uint32_t mode;          /* permission bits */
    int64_t mtime_ns;       /* nanoseconds since 1970 */
    unsigned char digest[32]; /* BLAKE3; if the server sends none, we compute it from the received octets */
} pinnace_files_event_t;

/* Waits for the next event, writes it, and returns 1; or 0: the transfer is over. EAGAIN: there was none for
 * timeout_ms; negative: no limit. EFAULT: the transfer was closed during the call. The texts belong to the transfer:
 * they are valid until the next call of this or of pinnace_files_transfer_wait, and until the transfer is closed. So
 * take its events in one thread, and to end that thread's wait, cancel the transfer before you close it. */
int pinnace_files_transfer_next_event(pinnace_files_transfer_t *transfer, pinnace_files_event_t *event,
                                      long timeout_ms);

typedef struct pinnace_files_report_t {
    size_t size; /* as above */
    uint64_t files, bytes, failed;
} pinnace_files_report_t;

/* Takes all events, and waits until the transfer is over. 0: it is complete; the report, which may be NULL, tells
 * how many files failed. -1: errno tells why it is not complete; EAGAIN: it is not over after timeout_ms. Can be
 * called again. */
int pinnace_files_transfer_wait(pinnace_files_transfer_t *transfer, pinnace_files_report_t *report, long timeout_ms);

typedef struct pinnace_files_failure_t {
    size_t size;      /* as above */
    int error;        /* an errno */
    const char *path; /* valid until the transfer is closed */
    const char *text;
    int here;         /* 1: it failed on the disk of this host */
} pinnace_files_failure_t;

/* Writes a file that failed, by its index from 0 on. ENOENT: there is none, or the transfer is not complete. */
int pinnace_files_transfer_failure(pinnace_files_transfer_t *transfer, size_t index, pinnace_files_failure_t *failure);

/* A descriptor for epoll(7), poll(2) and event loops. It is readable while an event may be there, and once the transfer
 * is over: then call pinnace_files_transfer_next_event with timeout 0. It stays readable until that finds no event. It
 * belongs to the transfer: do not read, write or close it. */
int pinnace_files_transfer_fd(pinnace_files_transfer_t *transfer);

/* Ends the transfer soon; what has arrived of a file is kept, for a later transfer. */
int pinnace_files_transfer_cancel(pinnace_files_transfer_t *transfer);
/* Cancels the transfer, unless it is over, and releases it. Calls that wait in other threads return. */
int pinnace_files_transfer_close(pinnace_files_transfer_t *transfer);

#ifdef __cplusplus
}
#endif

#endif /* PINNACE_FILES_H */
