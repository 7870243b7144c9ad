//! A process's memory, processor time and descriptors, as the kernel reports them; and its limits.

use std::time::Duration;

fn field(pid: u32, file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process is there");
    let line = text.lines().filter_map(|line| line.strip_prefix(name)).map(|rest| {
        let number = rest.split_whitespace().next().expect("a value");
        number.parse::<u64>().expect("a number")
    });
    line.sum()
}

/// Resident bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    field(pid, "status", "VmRSS:") * 1024
}

/// Peak resident bytes.
pub fn peak_bytes(pid: u32) -> u64 {
    field(pid, "status", "VmHWM:") * 1024
}

/// Returns true if a thread sleeps or has ended; false if it runs or is stopped.
pub fn sleeps(thread: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{thread}/stat")) else { return true };
    text.rsplit_once(')').expect("a name in brackets").1.trim_start().starts_with('S')
}

/// Returns true if all threads of a process sleep: a role runs in a thread of its own, beside the first.
pub fn all_sleep(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there").flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.collect::<Vec<u32>>().into_iter().all(sleeps)
}

/// The ids of this process's threads.
pub fn thread_ids() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the process is there").flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The signals that a thread of this process blocks: bit n-1 for signal n.
pub fn blocked_signals(thread: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).expect("it runs");
    let text = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("it has a mask");
    u64::from_str_radix(text.trim(), 16).expect("a number")
}

/// Private dirty resident bytes. A library's own pages are not counted: they would become private as soon as no other
/// process has the library loaded.
pub fn private_bytes(pid: u32) -> u64 {
    field(pid, "smaps_rollup", "Private_Dirty:") * 1024
}

/// Resident bytes of this process's mappings with this name.
pub fn resident_of(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("the process is there");
    let (mut named, mut bytes) = (false, 0);
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("Rss:").filter(|_| named) {
            let kib = size.trim().trim_end_matches(" kB");
            bytes += kib.parse::<u64>().expect("a number") * 1024;
        } else if line.split_whitespace().next().is_some_and(|first| first.contains('-')) {
            named = line.contains(name);
        }
    }
    bytes
}

/// Number of this process's mappings with this name.
pub fn mappings_of(name: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/maps").expect("the process is there");
    text.lines().filter(|line| line.contains(name)).count()
}

/// Processor time of all threads, user and system.
pub fn cpu_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name in brackets").1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    // SAFETY: reads a constant.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Duration::from_secs_f64(ticks as f64 / per_second)
}

/// Processor time of the calling thread.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: our own structure; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Number of open descriptors; `usize::MAX` if this process has no descriptor left to count with.
pub fn descriptors(pid: u32) -> usize {
    match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries.count(),
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => usize::MAX,
        Err(error) => panic!("the process is there: {error}"),
    }
}

/// Number of threads of the process.
pub fn threads(pid: u32) -> u64 {
    field(pid, "status", "Threads:")
}

/// Sets this process's soft limit of open descriptors.
pub fn limit_descriptors(count: u64) {
    // SAFETY: reads and writes a structure of ours.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = count.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// This process's id.
pub fn own() -> u32 {
    std::process::id()
}
