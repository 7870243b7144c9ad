//! Options: values, limits, and effects.

mod byte_limits;
mod conflating;
mod draft_options;
mod hwm;
mod kernel_options;
mod options;
mod sizes;
mod udp_kernel_options;
