//! Watching over a running command: its end, its lease, the signals for it.

use std::ffi::c_int;
use std::process::ExitStatus;
use std::time::Duration;

use holdfast_client::{Clock, Guard, Moment, Standing};

use super::lease::LastMoments;
use super::say;
use super::signals::{Signals, asks_to_end};
use super::system::{self, Change, Pid};
use super::terminal::Terminal;

/// How often to look for the last of a group: those that are not children of ours end without our being told.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How a command and its group have ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The group was stopped because the lock was about to be lost, or was.
    pub(crate) lost: bool,
}

/// A command that runs under a lock, as the leader of its group.
pub(crate) struct Supervision<'a> {
    pub(crate) group: Pid,
    pub(crate) guard: &'a Guard,
    pub(crate) clock: &'a Clock,
    pub(crate) terminal: Option<&'a Terminal>,
    /// How long the group may take to end after it was told to.
    pub(crate) kill_after: Duration,
    progress: Progress,
}

#[derive(Default)]
struct Progress {
    /// The command's own, once it is over. Others of its group may live on.
    status: Option<ExitStatus>,
    lost: bool,
    told_to_stop: bool,
    kill_at: Option<Moment>,
    killed: bool,
}

impl<'a> Supervision<'a> {
    pub(crate) fn new(
        group: Pid,
        guard: &'a Guard,
        clock: &'a Clock,
        terminal: Option<&'a Terminal>,
        kill_after: Duration,
    ) -> Self {
        Self { group, guard, clock, terminal, kill_after, progress: Progress::default() }
    }

    /// Returns when no process of the group is left.
    pub(crate) async fn run(mut self, signals: &mut Signals) -> Ended {
        let mut standing = self.guard.watch();
        loop {
            self.heed_children();
            if let (Some(status), true) = (self.progress.status, system::is_group_gone(self.group)) {
                return Ended { status, lost: self.progress.lost };
            }
            self.heed_orphans();
            self.heed_lease();
            self.kill_if_due();
            let wake_at = self.wake_at();
            tokio::select! {
                happening = signals.next_or_child() => {
                    if let Some(number) = happening {
                        self.pass_on(number);
                    }
                }
                Ok(()) = standing.changed() => {}
                () = self.clock.sleep_until(wake_at.unwrap_or_else(|| self.clock.now())), if wake_at.is_some() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if self.progress.status.is_some() => {}
            }
        }
    }

    /// Takes note of the children that have ended or stopped: the command, and orphans of its making.
    fn heed_children(&mut self) {
        while let Some((pid, change)) = system::next_change() {
            match change {
                Change::Ended(status) if pid == self.group => self.progress.status = Some(status),
                Change::Stopped(signal) if pid == self.group => self.heed_stop(signal),
                Change::Ended(_) | Change::Stopped(_) => {}
            }
        }
    }

    /// Once the command is over, the rest of its group has to end too. The lock is held until then.
    fn heed_orphans(&mut self) {
        if self.progress.status.is_some() && !self.progress.told_to_stop {
            self.tell_to_stop(libc::SIGTERM, self.clock.now().after(self.kill_after));
        }
    }

    /// Stops the group in time if the lease is not renewed, and at once if it is lost already.
    fn heed_lease(&mut self) {
        let now = self.clock.now();
        match self.guard.standing() {
            Standing::Held { deadline } => {
                let LastMoments { terminate_at, kill_at } = self.last_moments(deadline);
                if !self.progress.lost && now >= terminate_at {
                    let is_at_most = self.guard.latest().is_some_and(|latest| latest <= deadline);
                    say(match is_at_most {
                        true => "the longest hold is nearly over: the command is told to stop",
                        false => "the lease could not be renewed in time: the command is told to stop",
                    });
                    self.progress.lost = true;
                    self.tell_to_stop(libc::SIGTERM, kill_at);
                }
            }
            Standing::Lost(reason) => {
                if !self.progress.lost {
                    say(&format!("the lock is lost ({reason}): the command is killed"));
                }
                self.progress.lost = true;
                self.tell_to_stop(libc::SIGTERM, now);
            }
            Standing::Released => {}
        }
    }

    fn last_moments(&self, deadline: Moment) -> LastMoments {
        LastMoments::before(deadline, self.guard.ttl(), self.kill_after)
    }

    /// Tells the group to stop, and when it will be killed at the latest.
    fn tell_to_stop(&mut self, signal: c_int, kill_at: Moment) {
        if !self.progress.killed {
            system::signal_group(self.group, signal);
            system::signal_group(self.group, libc::SIGCONT); // A stopped process would not hear it.
        }
        self.progress.told_to_stop = true;
        self.progress.kill_at = Some(self.progress.kill_at.map_or(kill_at, |before| before.min(kill_at)));
    }

    fn kill_if_due(&mut self) {
        let is_due = self.progress.kill_at.is_some_and(|kill_at| self.clock.now() >= kill_at);
        if is_due && !self.progress.killed {
            system::signal_group(self.group, libc::SIGKILL);
            self.progress.killed = true;
        }
    }

    /// When the clock alone makes something due; none if nothing does.
    fn wake_at(&self) -> Option<Moment> {
        let kill_at = self.progress.kill_at.filter(|_| !self.progress.killed);
        let terminate_at = match self.guard.standing() {
            Standing::Held { deadline } if !self.progress.lost => {
                Some(self.last_moments(deadline).terminate_at)
            }
            _ => None,
        };
        kill_at.into_iter().chain(terminate_at).min()
    }

    /// Passes a signal on to the whole group.
    fn pass_on(&mut self, number: c_int) {
        if asks_to_end(number) {
            self.tell_to_stop(number, self.clock.now().after(self.kill_after));
        } else {
            system::signal_group(self.group, number);
        }
    }

    /// The command was stopped. In a session with a terminal this is job control: the command may be asking for
    /// the terminal; otherwise this program stops as well, so that the shell takes over, until it is continued.
    fn heed_stop(&mut self, signal: c_int) {
        let Some(terminal) = self.terminal else { return };
        let wants_terminal = [libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        if !(wants_terminal && terminal.hand_to(self.group)) {
            terminal.take_from(self.group);
            system::stop_self();
            terminal.hand_to(self.group);
        }
        if self.may_go_on() {
            system::signal_group(self.group, libc::SIGCONT);
        }
    }

    /// Whether the lease has outlived the time that this program was stopped for.
    fn may_go_on(&self) -> bool {
        self.guard
            .deadline()
            .is_some_and(|deadline| self.clock.now() < self.last_moments(deadline).terminate_at)
    }
}
