//! A process that continues itself whenever it is stopped.

use std::fs::File;
use std::io::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// How long it stays stopped, in nanoseconds, on a machine with nothing else to do.
const SOON: i64 = 100_000;
/// Timers that continue it, each after twice the time of the one before. A stop takes back what has come of one and was not
/// handled yet, and not what will come of the others.
static TIMERS: [AtomicPtr<libc::c_void>; 12] = [const { AtomicPtr::new(ptr::null_mut()) }; 12];

/// Writes so many MiB below a folder, in files of one MiB each, with timers that have this process continued (`SIGCONT`)
/// and are armed again each time. Then it does nothing but that until it is ended.
pub(crate) fn fill(folder: &str, files: u64) -> io::Result<()> {
    // SAFETY: all of it is this process's own. The handler only arms a timer, which a handler may do, and all that is
    // passed by address lives until the call returns; nothing but zeros is a valid value of the two structures.
    #[expect(unsafe_code, reason = "no safe wrapper for signals and timers")]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = again;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        if libc::sigaction(libc::SIGCONT, &raw const action, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGCONT;
        for place in &TIMERS {
            let mut timer = ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            place.store(timer, Ordering::SeqCst);
        }
    }
    again(libc::SIGCONT);
    // It waits for no disk, in which it would be still for a moment.
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    let block = vec![1; 1 << 20];
    for number in 0..files {
        File::create(format!("{folder}/{number}"))?.write_all(&block)?;
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

extern "C" fn again(_: libc::c_int) {
    let time = |nanoseconds| libc::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    for (place, nth) in TIMERS.iter().zip(0..) {
        let once = libc::itimerspec {
            it_interval: time(0),
            it_value: time(SOON << nth),
        };
        // SAFETY: the timers were created before this handler could be called, and are never deleted.
        #[expect(unsafe_code, reason = "no safe wrapper for timers")]
        unsafe {
            let timer = place.load(Ordering::SeqCst);
            libc::timer_settime(timer, 0, &raw const once, ptr::null_mut());
        }
    }
}
