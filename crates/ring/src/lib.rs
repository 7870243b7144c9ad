//! Queues between threads, and wake-ups.
