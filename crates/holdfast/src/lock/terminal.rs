//! The controlling terminal, which one process group at a time has in the foreground.
//!
//! The command's group gets it, so that Ctrl-C reaches the command once and from the terminal itself. At once, if
//! the command is alone with the terminal; where standard output goes elsewhere, as in `… | less`, only when the
//! command asks for it: others in the pipeline may need it too.

use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, AsRawFd};

use super::system::{self, Pid};

/// The terminal that controls this session.
pub(crate) struct Terminal {
    device: File,
    own_group: Pid,
}

impl Terminal {
    /// None if the session has no terminal.
    pub(crate) fn open() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { device, own_group: system::own_group() })
    }

    /// Whether this program, or what started it, is what the user sees.
    fn is_ours(&self) -> bool {
        system::foreground_group(self.device.as_fd()) == Some(self.own_group)
    }

    /// The descriptor through which a command takes the terminal before it starts, if it is to have it at once.
    pub(crate) fn for_command(&self) -> Option<std::ffi::c_int> {
        let alone = stdin().is_terminal() && stdout().is_terminal() && self.is_ours();
        alone.then(|| self.device.as_raw_fd())
    }

    /// Gives the terminal to a group, if it is this program's to give.
    pub(crate) fn hand_to(&self, group: Pid) -> bool {
        let is_ours = self.is_ours();
        if is_ours {
            system::set_foreground_group(self.device.as_fd(), group);
        }
        is_ours
    }

    /// Takes the terminal back from a group, if that still has it.
    pub(crate) fn take_from(&self, group: Pid) {
        if system::foreground_group(self.device.as_fd()) == Some(group) {
            system::set_foreground_group(self.device.as_fd(), self.own_group);
        }
    }
}
