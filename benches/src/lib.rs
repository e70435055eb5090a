//! Nothing but benchmarks: see the folder `benches/`. Each has its floor beside it, the same system calls without the
//! library, because only the ratio of the two means anything on another machine.
