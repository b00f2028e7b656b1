//! Arguments of the commands that are one call of the API each.

use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};
use holdfast_client::{Share, Terms};

use super::session::parse_list_limit;
use super::{ClientArgs, OutputArgs};
use crate::duration;
use crate::exit::STATUSES_HELP;

#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    /// The lock's name
    pub(crate) name: String,
    /// How long the lease lasts without renewal, 100ms to 24h; default 30s
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait if the lock is busy; default: not at all
    #[arg(long, env = "HOLDFAST_WAIT", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// A public label, shown in listings; default `anonymous`
    #[arg(long, env = "HOLDFAST_OWNER", value_name = "LABEL")]
    pub(crate) owner: Option<String>,
    /// The secret of the attempt; default: a new random one. Under `holdfast lock`, whose token is in the environment for
    /// its own lock, only the flag counts
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A JSON object of at most 1024 bytes, shown to everybody
    #[arg(long, env = "HOLDFAST_METADATA", value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    #[command(flatten)]
    pub(crate) share: ShareArgs,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
    /// The id of the session that is to keep the lock, instead of a TTL
    #[arg(long, env = "HOLDFAST_SESSION", value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The secret of that session
    #[arg(long, env = "HOLDFAST_SESSION_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) session_token: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// How much of a lock to take.
#[derive(Clone, Debug, Args)]
pub(crate) struct ShareArgs {
    /// Beside others that share it, instead of alone
    #[arg(long, env = "HOLDFAST_SHARED", value_parser = FalseyValueParser::new(), conflicts_with = "share_limit")]
    pub(crate) shared: bool,
    /// How many permits the lock has, 1 to 1000000; everybody has to name the same
    #[arg(long = "limit", id = "share_limit", env = "HOLDFAST_LIMIT", value_name = "N", value_parser = parse_limit)]
    pub(crate) limit: Option<u32>,
    /// How many of them to take, 1 to the limit [default: 1]
    #[arg(long, env = "HOLDFAST_PERMITS", value_name = "K", value_parser = parse_limit, requires = "share_limit")]
    pub(crate) permits: Option<u32>,
}

impl ShareArgs {
    pub(crate) fn share(&self) -> Share {
        match (self.limit, self.shared) {
            (Some(limit), _) => Share::Permits { limit, permits: self.permits.unwrap_or(1) },
            (None, true) => Share::Shared,
            (None, false) => Share::Exclusive,
        }
    }
}

/// What to agree on beside the TTL.
#[derive(Clone, Debug, Args)]
pub(crate) struct TermsArgs {
    /// After the lock was lost (expired, or ended by an operator), nobody is granted it for this long, at most 5m
    #[arg(long, env = "HOLDFAST_DELAY", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) delay: Option<Duration>,
    /// A release takes effect no earlier than this long after the grant, at most 24h
    #[arg(long, env = "HOLDFAST_MIN_HOLD", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) min_hold: Option<Duration>,
    /// However it is renewed, the lock is lost this long after the grant, 100ms to 366d
    #[arg(long, env = "HOLDFAST_MAX_HOLD", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,
    /// Only where it was not done within this long, 1s to 366d, counted from the grant of the run that was done
    #[arg(long, env = "HOLDFAST_ONCE", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) once: Option<Duration>,
}

impl TermsArgs {
    pub(crate) fn terms(&self) -> Terms {
        let Self { delay, min_hold, max_hold, once } = *self;
        Terms { delay, min_hold, max_hold, once }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// The lock's name
    pub(crate) name: String,
    /// How many permits it has from now on, 1 to 1000000
    #[arg(value_parser = parse_limit)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The lock's name
    pub(crate) name: String,
    /// The secret of the hold; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A new TTL; default: the one in force
    #[arg(long, env = "HOLDFAST_TTL", value_name = "DURATION", value_parser = duration::parse_ttl)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// The lock's name
    pub(crate) name: String,
    /// The secret of the attempt; in the environment it does not show in `ps`
    #[arg(long, env = "HOLDFAST_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// It is done: nobody who asks with --once is granted the lock until the period is over
    #[arg(long, env = "HOLDFAST_DONE", value_parser = FalseyValueParser::new())]
    pub(crate) done: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// How fresh a read must be.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Take what any node has, which may be old; works without a majority
    #[arg(long, env = "HOLDFAST_STALE", value_parser = FalseyValueParser::new())]
    pub(crate) stale: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The lock's name
    pub(crate) name: String,
    /// Answer once something has happened to the lock, or after so long
    #[arg(long, env = "HOLDFAST_WAIT", value_name = "DURATION", value_parser = duration::parse, conflicts_with = "stale")]
    pub(crate) wait: Option<Duration>,
    /// With --wait: since this event number, a `seq` of another answer; default: from now on
    #[arg(long, env = "HOLDFAST_SINCE", value_name = "SEQ", requires = "wait")]
    pub(crate) since: Option<u64>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only names that begin so
    #[arg(long, env = "HOLDFAST_PREFIX", value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only names behind this one
    #[arg(long, env = "HOLDFAST_AFTER", value_name = "NAME")]
    pub(crate) after: Option<String>,
    /// Most locks to list, 1 to 1000; default 100
    #[arg(long, env = "HOLDFAST_LIMIT", value_name = "N", value_parser = parse_list_limit)]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

fn parse_limit(text: &str) -> Result<u32, String> {
    const MAX: u32 = 1_000_000;
    let limit = text.parse().ok().filter(|limit| (1..=MAX).contains(limit));
    limit.ok_or_else(|| format!("must be a whole number between 1 and {MAX}, got {text}"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the members, as the node that answers sees them
    Status(StatusArgs),
    /// Remove a member, dead or alive
    #[command(after_help = STATUSES_HELP)]
    Remove(RemoveMemberArgs),
    /// Let another node lead
    #[command(after_help = STATUSES_HELP)]
    Transfer(TransferArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RemoveMemberArgs {
    /// The member's id
    pub(crate) id: u64,
    /// Also if the cluster would have no majority of nodes that answer, and may stop until others come back
    #[arg(long, env = "HOLDFAST_FORCE", value_parser = FalseyValueParser::new())]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The voter that is to lead [default: whichever is best]
    #[arg(long, env = "HOLDFAST_TO", value_name = "ID")]
    pub(crate) to: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HealthcheckArgs {
    /// What to ask, such as http://127.0.0.1:7101/readyz
    #[arg(long, env = "HOLDFAST_URL", value_name = "URL")]
    pub(crate) url: String,
}
