//! Which paths there are, and which methods they take: one table for the service, its metrics and its description.

use hyper::Method;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Acquire,
    Renew,
    Release,
    SetLimit,
    Get,
    List,
    Cluster,
    Livez,
    Readyz,
    Metrics,
    OpenApi,
    Digest,
    Campaign,
    RenewLead,
    Proclaim,
    Resign,
    HandOver,
    GetElection,
    AcquireMany,
    RenewMany,
    ReleaseMany,
    OpenSession,
    RenewSession,
    EndSession,
    GetSession,
    ListSessions,
    Events,
    LookUp,
    CheckFence,
    ForceRelease,
    ForceLeave,
    History,
    Why,
    Join,
    RemoveMember,
    Transfer,
}

impl Route {
    /// All of them.
    pub(crate) const ALL: [Self; 36] = [
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::SetLimit,
        Self::Get,
        Self::List,
        Self::Cluster,
        Self::Livez,
        Self::Readyz,
        Self::Metrics,
        Self::OpenApi,
        Self::Digest,
        Self::Campaign,
        Self::RenewLead,
        Self::Proclaim,
        Self::Resign,
        Self::HandOver,
        Self::GetElection,
        Self::AcquireMany,
        Self::RenewMany,
        Self::ReleaseMany,
        Self::OpenSession,
        Self::RenewSession,
        Self::EndSession,
        Self::GetSession,
        Self::ListSessions,
        Self::Events,
        Self::LookUp,
        Self::CheckFence,
        Self::ForceRelease,
        Self::ForceLeave,
        Self::History,
        Self::Why,
        Self::Join,
        Self::RemoveMember,
        Self::Transfer,
    ];

    /// The path, with `{name}` for the lock's and `{id}` for the session's or the member's.
    pub(crate) fn template(self) -> &'static str {
        match self {
            Self::Acquire => "/v1/locks/{name}/acquire",
            Self::Renew => "/v1/locks/{name}/renew",
            Self::Release => "/v1/locks/{name}/release",
            Self::SetLimit => "/v1/locks/{name}/limit",
            Self::Get => "/v1/locks/{name}",
            Self::List => "/v1/locks",
            Self::Cluster => "/v1/cluster",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
            Self::Metrics => "/metrics",
            Self::OpenApi => "/openapi.json",
            Self::Digest => "/debug/digest",
            Self::Campaign => "/v1/elections/{name}/campaign",
            Self::RenewLead => "/v1/elections/{name}/renew",
            Self::Proclaim => "/v1/elections/{name}/proclaim",
            Self::Resign => "/v1/elections/{name}/resign",
            Self::HandOver => "/v1/elections/{name}/hand-over",
            Self::GetElection => "/v1/elections/{name}",
            Self::AcquireMany => "/v1/acquire",
            Self::RenewMany => "/v1/renew",
            Self::ReleaseMany => "/v1/release",
            Self::OpenSession | Self::ListSessions => "/v1/sessions",
            Self::RenewSession => "/v1/sessions/{id}/renew",
            Self::EndSession => "/v1/sessions/{id}/end",
            Self::GetSession => "/v1/sessions/{id}",
            Self::Events => "/v1/events",
            Self::LookUp => "/v1/locks/{name}/attempt",
            Self::CheckFence => "/v1/locks/{name}/check",
            Self::ForceRelease => "/v1/locks/{name}/force-release",
            Self::ForceLeave => "/v1/locks/{name}/force-leave",
            Self::History => "/v1/locks/{name}/history",
            Self::Why => "/v1/locks/{name}/why",
            Self::Join => "/v1/cluster/members",
            Self::RemoveMember => "/v1/cluster/members/{id}",
            Self::Transfer => "/v1/cluster/transfer",
        }
    }

    /// What it is called in metrics: its path, unless another route has the same.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OpenSession => "POST /v1/sessions",
            _ => self.template(),
        }
    }

    /// The one method that does what the path is for.
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Acquire
            | Self::Renew
            | Self::Release
            | Self::SetLimit
            | Self::AcquireMany
            | Self::RenewMany
            | Self::ReleaseMany => Method::POST,
            Self::Campaign | Self::RenewLead | Self::Proclaim | Self::Resign | Self::HandOver => Method::POST,
            Self::OpenSession | Self::RenewSession | Self::EndSession => Method::POST,
            Self::LookUp | Self::CheckFence | Self::ForceRelease | Self::ForceLeave => Method::POST,
            Self::Join | Self::Transfer => Method::POST,
            Self::RemoveMember => Method::DELETE,
            Self::Get
            | Self::List
            | Self::Cluster
            | Self::Livez
            | Self::Readyz
            | Self::Metrics
            | Self::OpenApi
            | Self::Digest
            | Self::GetElection
            | Self::GetSession
            | Self::ListSessions
            | Self::Events
            | Self::History
            | Self::Why => Method::GET,
        }
    }

    /// Value of the `Allow` header.
    pub(crate) fn allow(self) -> &'static str {
        match self {
            Self::OpenSession | Self::ListSessions => "GET, HEAD, POST, OPTIONS",
            Self::RemoveMember => "DELETE, OPTIONS",
            _ if self.method() == Method::POST => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// To a route; with the lock's name or the session's id as it stands in the path, or with nothing.
    Found(Route, &'a str),
    /// Nowhere, but it begins like the path of a lock or an election: the name has a bare slash, perhaps.
    BelowLocks,
    /// Nowhere.
    Nowhere,
}

/// Finds the route of a raw path. Nothing in the path is normalised, and an encoded slash divides nothing.
///
/// The method matters only where one path has two routes; whether the route takes it, is not looked at.
pub(crate) fn find<'a>(method: &Method, path: &'a str) -> Destination<'a> {
    if let Some(below) = path.strip_prefix("/v1/locks/") {
        return find_below(below, Route::Get, lock_action);
    }
    if let Some(below) = path.strip_prefix("/v1/elections/") {
        return find_below(below, Route::GetElection, election_action);
    }
    if let Some(below) = path.strip_prefix("/v1/sessions/") {
        return find_below_sessions(below);
    }
    if let Some(id) = path.strip_prefix("/v1/cluster/members/").filter(|id| !id.contains('/')) {
        return Destination::Found(Route::RemoveMember, id);
    }
    let route = match path {
        "/v1/locks" => Route::List,
        "/v1/acquire" => Route::AcquireMany,
        "/v1/renew" => Route::RenewMany,
        "/v1/release" => Route::ReleaseMany,
        "/v1/sessions" if *method == Method::POST => Route::OpenSession,
        "/v1/sessions" => Route::ListSessions,
        "/v1/events" => Route::Events,
        "/v1/cluster" => Route::Cluster,
        "/v1/cluster/members" => Route::Join,
        "/v1/cluster/transfer" => Route::Transfer,
        "/livez" => Route::Livez,
        "/readyz" => Route::Readyz,
        "/metrics" => Route::Metrics,
        "/openapi.json" => Route::OpenApi,
        "/debug/digest" => Route::Digest,
        _ => return Destination::Nowhere,
    };
    Destination::Found(route, "")
}

/// `below` is a name, and perhaps an action behind a slash.
fn find_below(below: &str, look: Route, action: fn(&str) -> Option<Route>) -> Destination<'_> {
    let Some((name, word)) = below.split_once('/') else {
        return Destination::Found(look, below);
    };
    action(word).map_or(Destination::BelowLocks, |route| Destination::Found(route, name))
}

fn lock_action(word: &str) -> Option<Route> {
    match word {
        "acquire" => Some(Route::Acquire),
        "renew" => Some(Route::Renew),
        "release" => Some(Route::Release),
        "limit" => Some(Route::SetLimit),
        "attempt" => Some(Route::LookUp),
        "check" => Some(Route::CheckFence),
        "force-release" => Some(Route::ForceRelease),
        "force-leave" => Some(Route::ForceLeave),
        "history" => Some(Route::History),
        "why" => Some(Route::Why),
        _ => None,
    }
}

fn election_action(word: &str) -> Option<Route> {
    match word {
        "campaign" => Some(Route::Campaign),
        "renew" => Some(Route::RenewLead),
        "proclaim" => Some(Route::Proclaim),
        "resign" => Some(Route::Resign),
        "hand-over" => Some(Route::HandOver),
        _ => None,
    }
}

fn find_below_sessions(below: &str) -> Destination<'_> {
    match below.split_once('/') {
        None => Destination::Found(Route::GetSession, below),
        Some((id, "renew")) => Destination::Found(Route::RenewSession, id),
        Some((id, "end")) => Destination::Found(Route::EndSession, id),
        Some(_) => Destination::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str) -> Destination<'_> {
        super::find(&Method::GET, path)
    }

    #[test]
    fn every_route_is_found_by_its_template() {
        for route in Route::ALL {
            let path = route.template().replace("{name}", "x").replace("{id}", "x");
            let found = super::find(&route.method(), &path);
            assert!(matches!(found, Destination::Found(found, "x" | "") if found == route), "{path}");
        }
    }

    #[test]
    fn an_encoded_slash_stays_within_the_name() {
        assert_eq!(find("/v1/locks/a%2Fb/acquire"), Destination::Found(Route::Acquire, "a%2Fb"));
        assert_eq!(find("/v1/locks/%2Facquire"), Destination::Found(Route::Get, "%2Facquire"));
    }

    #[test]
    fn dots_are_names_like_any_other() {
        assert_eq!(find("/v1/locks/."), Destination::Found(Route::Get, "."));
        assert_eq!(find("/v1/locks/../release"), Destination::Found(Route::Release, ".."));
    }

    #[test]
    fn a_bare_slash_in_a_name_leads_to_no_other_endpoint() {
        for path in ["/v1/locks/a/b", "/v1/locks/a//acquire", "/v1/locks/a/", "/v1/locks//a/acquire"] {
            assert_eq!(find(path), Destination::BelowLocks, "{path}");
            assert_eq!(find(&path.replace("locks", "elections")), Destination::BelowLocks, "{path}");
        }
        for path in ["/v1/sessions/a/b", "/v1/sessions/a/renew/", "/v1/sessions//", "/v1/session"] {
            assert_eq!(find(path), Destination::Nowhere, "{path}");
        }
        for path in ["//v1/locks", "/v1//locks", "/v1/cluster/", "/v1/locks/../cluster/x", ""] {
            assert!(!matches!(find(path), Destination::Found(..)), "{path}");
        }
    }

    #[test]
    fn an_empty_name_is_found_to_be_refused_by_its_rule() {
        assert_eq!(find("/v1/locks/"), Destination::Found(Route::Get, ""));
        assert_eq!(find("/v1/locks//acquire"), Destination::Found(Route::Acquire, ""));
    }
}
