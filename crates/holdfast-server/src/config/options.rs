//! Options of `holdfast serve` as they are given: by flags, environment or file, all of them optional.

use std::path::PathBuf;
use std::time::Duration;

use holdfast_replica::groups::LockGroups;
use holdfast_replica::handle::Timing;
use holdfast_replica::members::Stay;
use serde::Deserialize;

use super::address::{check_host_port, parse_base_url, parse_initial_cluster};
use super::duration::parse_duration;
use super::{ConfigError, LISTEN_DEFAULT, LOG_LEVEL_DEFAULT, LogFormat, PEER_LISTEN_DEFAULT, ServeConfig};

/// Node ids fit into a JSON number.
const NODE_ID_MAX: u64 = (1 << 53) - 1;
const HEARTBEAT_MS: std::ops::RangeInclusive<u64> = 10..=10_000;
const ELECTION_MAX_MS: u64 = 120_000;
/// A follower must miss several heartbeats before it calls for an election.
const HEARTBEATS_MISSED_MIN: u64 = 3;

/// Options as one source gives them. What is left out, or an empty text, is not given.
///
/// The names of the fields are the keys of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServeOptions {
    /// Id of the node, from 1.
    pub node_id: Option<u64>,
    /// `HOST:PORT` for clients.
    pub listen: Option<String>,
    /// `HOST:PORT` for peers.
    pub peer_listen: Option<String>,
    /// Base URL that clients reach the node by.
    pub advertise: Option<String>,
    /// `HOST:PORT` that peers reach the node by.
    pub peer_advertise: Option<String>,
    /// The node's folder.
    pub data_dir: Option<PathBuf>,
    /// `ID=HOST:PORT,…`: the first members.
    pub initial_cluster: Option<String>,
    /// `URL,URL,…`: members of a cluster to join.
    pub join: Option<String>,
    /// Whether the node stays a learner.
    pub learner: Option<bool>,
    /// Duration between two heartbeats of a leader.
    pub heartbeat_interval: Option<String>,
    /// Shortest silence after which a follower calls for an election.
    pub election_timeout: Option<String>,
    /// Longest such silence; each follower picks one in between. Twice the shortest, if it is left out.
    pub election_timeout_max: Option<String>,
    /// `text` or `json`.
    pub log_format: Option<String>,
    /// A level, or a filter as `tracing` has it.
    pub log_level: Option<String>,
    /// `PREFIX,PREFIX,…`: what locks are counted by.
    pub metrics_prefixes: Option<String>,
}

impl ServeOptions {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A text for people that names the line and the key.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// These options, and where they say nothing, `fallback`.
    #[must_use]
    pub fn merge(self, fallback: Self) -> Self {
        Self {
            node_id: self.node_id.or(fallback.node_id),
            listen: given(self.listen).or(fallback.listen),
            peer_listen: given(self.peer_listen).or(fallback.peer_listen),
            advertise: given(self.advertise).or(fallback.advertise),
            peer_advertise: given(self.peer_advertise).or(fallback.peer_advertise),
            data_dir: given_path(self.data_dir).or(fallback.data_dir),
            initial_cluster: self.initial_cluster.or(fallback.initial_cluster),
            join: given(self.join).or(fallback.join),
            learner: self.learner.or(fallback.learner),
            heartbeat_interval: given(self.heartbeat_interval).or(fallback.heartbeat_interval),
            election_timeout: given(self.election_timeout).or(fallback.election_timeout),
            election_timeout_max: given(self.election_timeout_max).or(fallback.election_timeout_max),
            log_format: given(self.log_format).or(fallback.log_format),
            log_level: given(self.log_level).or(fallback.log_level),
            metrics_prefixes: given(self.metrics_prefixes).or(fallback.metrics_prefixes),
        }
    }

    /// Checks everything and fills in the defaults.
    ///
    /// # Errors
    /// The first option that cannot be used.
    pub fn resolve(self) -> Result<ServeConfig, ConfigError> {
        let join = join(self.join)?;
        if !join.is_empty() && self.initial_cluster.is_some() {
            let what = "cannot be used together with initial_cluster: a node forms a cluster or joins one";
            return Err(ConfigError::new("join", what));
        }
        let node_id = node_id(self.node_id)?;
        let data_dir = given_path(self.data_dir)
            .ok_or_else(|| ConfigError::new("data_dir", "is missing: give the node a folder of its own"))?;
        Ok(ServeConfig {
            node_id,
            listen: host_port("listen", self.listen)?.unwrap_or_else(|| LISTEN_DEFAULT.into()),
            peer_listen: host_port("peer_listen", self.peer_listen)?
                .unwrap_or_else(|| PEER_LISTEN_DEFAULT.into()),
            advertise: base_url(self.advertise)?,
            peer_advertise: host_port("peer_advertise", self.peer_advertise)?,
            data_dir,
            initial_cluster: initial_cluster(node_id, self.initial_cluster)?,
            join,
            stay: if self.learner == Some(true) { Stay::Learner } else { Stay::UntilCaughtUp },
            timing: timing(self.heartbeat_interval, self.election_timeout, self.election_timeout_max)?,
            log_format: log_format(self.log_format)?,
            log_level: given(self.log_level).unwrap_or_else(|| LOG_LEVEL_DEFAULT.into()),
            lock_groups: lock_groups(self.metrics_prefixes)?,
        })
    }
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn given_path(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

fn node_id(id: Option<u64>) -> Result<u64, ConfigError> {
    match id {
        Some(id) if (1..=NODE_ID_MAX).contains(&id) => Ok(id),
        Some(id) => {
            let what = format_args!("must be a whole number between 1 and {NODE_ID_MAX}, got {id}");
            Err(ConfigError::new("node_id", what))
        }
        None => {
            Err(ConfigError::new("node_id", "is missing: give each node of a cluster its own number, from 1"))
        }
    }
}

fn host_port(key: &'static str, text: Option<String>) -> Result<Option<String>, ConfigError> {
    let Some(text) = given(text) else { return Ok(None) };
    check_host_port(&text).map_err(|what| ConfigError::new(key, what))?;
    Ok(Some(text))
}

fn base_url(text: Option<String>) -> Result<Option<String>, ConfigError> {
    let url = given(text).map(|text| parse_base_url(&text)).transpose();
    url.map_err(|what| ConfigError::new("advertise", what))
}

fn join(text: Option<String>) -> Result<Vec<String>, ConfigError> {
    let text = given(text).unwrap_or_default();
    let urls = text.split(',').map(str::trim).filter(|url| !url.is_empty()).map(parse_base_url);
    urls.collect::<Result<_, _>>().map_err(|what| ConfigError::new("join", what))
}

fn initial_cluster(node_id: u64, text: Option<String>) -> Result<Vec<(u64, String)>, ConfigError> {
    // An empty list is a mistake: taken for none, it would make each node a cluster of its own.
    let Some(text) = text else { return Ok(Vec::new()) };
    let error = |what: String| ConfigError::new("initial_cluster", what);
    let members = parse_initial_cluster(&text).map_err(error)?;
    if members.iter().all(|(id, _)| *id != node_id) {
        return Err(error(format!("does not name this node, whose node_id is {node_id}")));
    }
    Ok(members)
}

fn timing(
    heartbeat: Option<String>,
    election_min: Option<String>,
    election_max: Option<String>,
) -> Result<Timing, ConfigError> {
    let default = Timing::default();
    let heartbeat_ms = duration_ms("heartbeat_interval", heartbeat)?.unwrap_or(default.heartbeat_ms);
    let election_min = duration_ms("election_timeout", election_min)?;
    let election_min_ms = election_min.unwrap_or(default.election_min_ms);
    let election_max_ms = duration_ms("election_timeout_max", election_max)?.unwrap_or(match election_min {
        Some(ms) => ms.saturating_mul(2).min(ELECTION_MAX_MS),
        None => default.election_max_ms,
    });
    if !HEARTBEAT_MS.contains(&heartbeat_ms) {
        let (min, max) = (HEARTBEAT_MS.start(), HEARTBEAT_MS.end());
        let what = format_args!("must be between {min}ms and {max}ms, got {heartbeat_ms}ms");
        return Err(ConfigError::new("heartbeat_interval", what));
    }
    let least = heartbeat_ms * HEARTBEATS_MISSED_MIN;
    if !(least..ELECTION_MAX_MS).contains(&election_min_ms) {
        let what = format_args!(
            "must be at least {HEARTBEATS_MISSED_MIN} heartbeat intervals ({least}ms) and below {ELECTION_MAX_MS}ms, \
             got {election_min_ms}ms"
        );
        return Err(ConfigError::new("election_timeout", what));
    }
    if !(election_min_ms + 1..=ELECTION_MAX_MS).contains(&election_max_ms) {
        let what = format_args!(
            "must be above election_timeout ({election_min_ms}ms) and at most {ELECTION_MAX_MS}ms, \
             got {election_max_ms}ms"
        );
        return Err(ConfigError::new("election_timeout_max", what));
    }
    Ok(Timing { heartbeat_ms, election_min_ms, election_max_ms })
}

fn duration_ms(key: &'static str, text: Option<String>) -> Result<Option<u64>, ConfigError> {
    let Some(text) = given(text) else { return Ok(None) };
    let duration: Duration = parse_duration(&text).map_err(|error| ConfigError::new(key, error))?;
    Ok(Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
}

fn lock_groups(text: Option<String>) -> Result<LockGroups, ConfigError> {
    let Some(text) = given(text) else { return Ok(LockGroups::default()) };
    let groups = LockGroups::new(text.split(',').map(str::trim));
    groups.map_err(|what| ConfigError::new("metrics_prefixes", what))
}

fn log_format(text: Option<String>) -> Result<LogFormat, ConfigError> {
    match given(text).as_deref() {
        None | Some("text") => Ok(LogFormat::Text),
        Some("json") => Ok(LogFormat::Json),
        Some(other) => {
            Err(ConfigError::new("log_format", format_args!("must be text or json, got `{other}`")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Option<String> {
        Some(value.into())
    }

    fn required() -> ServeOptions {
        ServeOptions { node_id: Some(1), data_dir: Some("data".into()), ..Default::default() }
    }

    fn refused(options: ServeOptions) -> ConfigError {
        options.merge(required()).resolve().unwrap_err()
    }

    #[test]
    fn prefixes_for_the_metrics_are_a_list_that_is_checked() {
        let options = |list| ServeOptions { metrics_prefixes: text(list), ..Default::default() };
        let config = options("jobs/, invoices/").merge(required()).resolve().unwrap();
        assert_eq!(config.lock_groups.names().collect::<Vec<_>>(), ["invoices/", "jobs/", "other"]);
        let config = options("").merge(required()).resolve().unwrap();
        assert_eq!(config.lock_groups.names().collect::<Vec<_>>(), ["other"]);
        for list in ["a,", "a,a", "other", "a\tb"] {
            assert_eq!(refused(options(list)).key, "metrics_prefixes", "{list}");
        }
    }

    #[test]
    fn a_flag_goes_before_the_file_and_the_file_before_the_default() {
        let flags = ServeOptions { listen: text("127.0.0.1:1"), log_level: text(""), ..Default::default() };
        let file = ServeOptions::from_toml(
            "node_id = 3\nlisten = \"127.0.0.1:2\"\nlog_level = \"debug\"\ndata_dir = \"/x\"\n",
        );
        let config = flags.merge(file.unwrap()).resolve().unwrap();
        assert_eq!((config.node_id, config.listen.as_str()), (3, "127.0.0.1:1"));
        assert_eq!((config.log_level.as_str(), config.peer_listen.as_str()), ("debug", PEER_LISTEN_DEFAULT));
        assert_eq!(config.timing, Timing::default());
    }

    #[test]
    fn an_unknown_key_in_the_file_is_refused_by_name() {
        let error = ServeOptions::from_toml("node_id = 1\nlisten_on = \"x\"\n").unwrap_err();
        assert!(error.contains("listen_on") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn what_is_required_is_asked_for_by_name() {
        assert_eq!(ServeOptions::default().resolve().unwrap_err().key, "node_id");
        let options = ServeOptions { node_id: Some(1), ..Default::default() };
        assert_eq!(options.resolve().unwrap_err().key, "data_dir");
    }

    #[test]
    fn an_option_outside_its_limits_is_refused_with_them() {
        let refusals = [
            (ServeOptions { node_id: Some(0), ..Default::default() }, "node_id"),
            (ServeOptions { listen: text("7101"), ..Default::default() }, "listen"),
            (ServeOptions { advertise: text("n1:7101"), ..Default::default() }, "advertise"),
            (ServeOptions { log_format: text("xml"), ..Default::default() }, "log_format"),
            (
                ServeOptions { initial_cluster: text("2=n2:1,3=n3:1"), ..Default::default() },
                "initial_cluster",
            ),
            (ServeOptions { heartbeat_interval: text("9ms"), ..Default::default() }, "heartbeat_interval"),
            (ServeOptions { heartbeat_interval: text("60"), ..Default::default() }, "heartbeat_interval"),
            (ServeOptions { election_timeout: text("100ms"), ..Default::default() }, "election_timeout"),
            (
                ServeOptions { election_timeout_max: text("300ms"), ..Default::default() },
                "election_timeout_max",
            ),
        ];
        for (options, key) in refusals {
            assert_eq!(refused(options).key, key);
        }
    }

    #[test]
    fn the_longest_election_timeout_follows_the_shortest() {
        let options = ServeOptions { election_timeout: text("1s"), ..Default::default() };
        let timing = options.merge(required()).resolve().unwrap().timing;
        assert_eq!((timing.election_min_ms, timing.election_max_ms), (1_000, 2_000));
    }

    #[test]
    fn a_node_joins_by_urls_or_forms_a_cluster_but_not_both() {
        let options = ServeOptions { join: text("http://n1:7101/, http://n2:7101"), ..Default::default() };
        let config = options.clone().merge(required()).resolve().unwrap();
        assert_eq!(config.join, ["http://n1:7101", "http://n2:7101"]);
        let both = ServeOptions { initial_cluster: text("1=n1:1"), ..options };
        assert_eq!(refused(both).key, "join");
        assert_eq!(refused(ServeOptions { join: text("n1:7101"), ..Default::default() }).key, "join");
    }
}
