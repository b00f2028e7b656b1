//! A terminal of its own for a program under test.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

use tokio::process::{Child, Command};

pub(crate) struct Pty {
    outside: File,
    inside: File,
}

impl Pty {
    pub(crate) fn open() -> Self {
        let (mut outside, mut inside) = (-1, -1);
        let nothing = std::ptr::null_mut();
        // SAFETY: the pointers are to integers of our own; the others may be null.
        let status = unsafe {
            libc::openpty(&raw mut outside, &raw mut inside, nothing, nothing.cast(), nothing.cast())
        };
        assert_eq!(status, 0);
        // SAFETY: openpty has just made these descriptors, and nobody else has them.
        unsafe { Self { outside: File::from_raw_fd(outside), inside: File::from_raw_fd(inside) } }
    }

    /// Starts a program whose standard input, output and error are this terminal.
    pub(crate) fn spawn(&mut self, mut command: Command) -> Child {
        command.stdout(self.inside.try_clone().unwrap()).stderr(self.inside.try_clone().unwrap());
        self.spawn_with_output_elsewhere(&mut command)
    }

    /// Starts a program whose standard input is this terminal, which also controls it.
    pub(crate) fn spawn_with_output_elsewhere(&mut self, command: &mut Command) -> Child {
        command.stdin(self.inside.try_clone().unwrap());
        let inside = self.inside.as_raw_fd();
        let steps = move || {
            // SAFETY: both are async-signal-safe, and the descriptor is open.
            let status = unsafe { libc::setsid() | libc::ioctl(inside, libc::TIOCSCTTY, 0) };
            if status < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: the steps are system calls only.
        unsafe { command.pre_exec(steps) };
        command.spawn().unwrap()
    }

    /// Types something.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.outside.write_all(bytes).unwrap();
    }
}
