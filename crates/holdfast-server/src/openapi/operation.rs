//! What each call takes.

use holdfast_api::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use holdfast_core::{LockName, Wait};
use utoipa::openapi::path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, Object, ObjectBuilder, Ref, Required};

use super::responses::responses;
use crate::http::Route;

/// Text without control characters (U+0000 to U+001F, U+007F to U+009F).
const NO_CONTROL: &str = r"^[^\u0000-\u001F\u007F-\u009F]*$";

/// How the service writes the id of a session.
const SESSION_ID: &str = "^([1-9][0-9]{0,18})?$";

pub(super) fn operation(route: Route) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(operation_id(route)))
        .summary(Some(summary(route)))
        .request_body(request_body(route))
        .responses(responses(route));
    for parameter in parameters(route) {
        operation = operation.parameter(parameter);
    }
    operation.build()
}

fn operation_id(route: Route) -> &'static str {
    match route {
        Route::Acquire => "acquire",
        Route::Renew => "renew",
        Route::Release => "release",
        Route::SetLimit => "setLimit",
        Route::Get => "getLock",
        Route::List => "listLocks",
        Route::Cluster => "getCluster",
        Route::Livez => "livez",
        Route::Readyz => "readyz",
        Route::Metrics => "metrics",
        Route::OpenApi => "openapi",
        Route::Digest => "digest",
        Route::Campaign => "campaign",
        Route::RenewLead => "renewLead",
        Route::Proclaim => "proclaim",
        Route::Resign => "resign",
        Route::HandOver => "handOver",
        Route::GetElection => "getElection",
        Route::AcquireMany => "acquireMany",
        Route::RenewMany => "renewMany",
        Route::ReleaseMany => "releaseMany",
        Route::OpenSession => "openSession",
        Route::RenewSession => "renewSession",
        Route::EndSession => "endSession",
        Route::GetSession => "getSession",
        Route::ListSessions => "listSessions",
        Route::Events => "watchEvents",
        Route::LookUp => "lookUpAttempt",
        Route::CheckFence => "checkFence",
        Route::ForceRelease => "forceRelease",
        Route::ForceLeave => "forceLeave",
        Route::History => "getHistory",
        Route::Why => "explainLock",
        Route::Join => "joinCluster",
        Route::RemoveMember => "removeMember",
        Route::Transfer => "transferLeadership",
    }
}

fn summary(route: Route) -> &'static str {
    match route {
        Route::Acquire => {
            "Takes the lock, or waits for it. Safe to repeat with the same token: never a second grant or place."
        }
        Route::Renew => {
            "Sets what is left of the lease to the TTL, or to a new one. It never revives a lease."
        }
        Route::Release => {
            "Frees the lock that this token holds, or takes its attempt out of the queue. Safe to repeat."
        }
        Route::SetLimit => {
            "Changes how many permits a lock has, while anybody holds some or waits for some. For operators."
        }
        Route::Get => "Shows a lock. A name that was never used is a free lock.",
        Route::List => {
            "Lists locks that somebody holds or waits for, or that are in a delay, in the order of their names, byte by byte."
        }
        Route::Cluster => "Shows the cluster as this node sees it.",
        Route::Livez => "Tells that the node's process is alive.",
        Route::Readyz => "Tells whether the node can serve: it knows a leader that has a majority.",
        Route::Metrics => "Numbers about the node in Prometheus's text format.",
        Route::OpenApi => "This description.",
        Route::Campaign => {
            "Takes the lead, or waits for it. An election is the lock of that name. Safe to repeat with the same token."
        }
        Route::RenewLead => "Sets what is left of the lead's lease to the TTL, or to a new one.",
        Route::Proclaim => "Changes the leader's value. The lease stays as it is. Safe to repeat.",
        Route::Resign => {
            "Ends the lead of this token, or takes its campaign out of the queue. Safe to repeat."
        }
        Route::HandOver => {
            "Ends the lead of this token and gives it to the first candidate of an owner, in one step. Safe to repeat."
        }
        Route::GetElection => "Shows who leads and who waits to. A name that was never used has no leader.",
        Route::Digest => "A hash of the replicated state, equal on every node at the same index.",
        Route::AcquireMany => {
            "Takes all of the locks or none, or waits until they are all free. Safe to repeat with the same token."
        }
        Route::RenewMany => {
            "Sets what is left of the leases to the TTL: of all that this token holds, or of those named."
        }
        Route::ReleaseMany => {
            "Frees all that this token holds, or those named, or takes its attempt out of all queues. Safe to repeat."
        }
        Route::OpenSession => {
            "Opens a session: one keep-alive for many locks. Safe to repeat: the same token finds the same session."
        }
        Route::RenewSession => "Sets what is left of the session to its TTL. It never revives a session.",
        Route::EndSession => {
            "Frees all that the session holds and ends all its waits, at one moment. Safe to repeat."
        }
        Route::GetSession => "Shows a session, the locks that it holds, and those that it waits for.",
        Route::ListSessions => "Lists the sessions that live, in the order in which they were opened.",
        Route::Events => {
            "Tells what happens, as server-sent events: `queued`, `left`, `acquired`, `released`, `expired`, `forced`, \
             `handed_over`, `changed` (each with a `LockEvent` as data), and `reset` (with an `EventReset`) where some \
             cannot be told any more. The ids are the same on every node, so that any of them goes on where another \
             has stopped."
        }
        Route::LookUp => {
            "Tells what became of an attempt, for whoever has lost an answer. It changes nothing."
        }
        Route::CheckFence => "Tells whether a fence is that of a hold in force.",
        Route::ForceRelease => {
            "Ends a hold that is in force, whoever has it. For operators. Safe to repeat with the same fence."
        }
        Route::ForceLeave => {
            "Takes all attempts of an owner out of the queue. For operators. Safe to repeat."
        }
        Route::History => "Lists the holds of the past, the newest first.",
        Route::Why => "Explains what keeps a lock from whoever asks for it now.",
        Route::Join => {
            "Lets a node in as a learner. For `holdfast serve --join`, which calls it. Safe to repeat by the same node."
        }
        Route::RemoveMember => {
            "Removes a member, dead or alive; one that leads lets another node lead first. For operators. Safe to repeat."
        }
        Route::Transfer => {
            "Lets another node lead, and answers once it serves. For operators. Safe to repeat."
        }
    }
}

fn request_body(route: Route) -> Option<RequestBody> {
    let (schema, required) = match route {
        Route::Acquire => ("AcquireRequest", Required::False),
        Route::Renew | Route::RenewLead => ("RenewRequest", Required::True),
        Route::Release => ("ReleaseRequest", Required::True),
        Route::Resign => ("ResignRequest", Required::True),
        Route::SetLimit => ("SetLimitRequest", Required::True),
        Route::Campaign => ("CampaignRequest", Required::False),
        Route::Proclaim => ("ProclaimRequest", Required::True),
        Route::HandOver => ("HandOverRequest", Required::True),
        Route::AcquireMany => ("AcquireManyRequest", Required::True),
        Route::RenewMany => ("RenewManyRequest", Required::True),
        Route::ReleaseMany => ("ReleaseManyRequest", Required::True),
        Route::OpenSession => ("OpenSessionRequest", Required::False),
        Route::RenewSession | Route::EndSession => ("SessionTokenRequest", Required::True),
        Route::LookUp => ("AttemptRequest", Required::True),
        Route::CheckFence => ("CheckRequest", Required::True),
        Route::ForceRelease => ("ForceReleaseRequest", Required::True),
        Route::ForceLeave => ("ForceLeaveRequest", Required::True),
        Route::Join => ("JoinRequest", Required::True),
        Route::RemoveMember => ("RemoveMemberRequest", Required::False),
        Route::Transfer => ("TransferRequest", Required::False),
        _ => return None,
    };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build();
    Some(RequestBodyBuilder::new().content("application/json", content).required(Some(required)).build())
}

fn parameters(route: Route) -> Vec<Parameter> {
    match route {
        Route::Acquire | Route::Renew | Route::Release | Route::SetLimit => vec![name()],
        Route::Campaign | Route::RenewLead | Route::Proclaim | Route::Resign | Route::HandOver => {
            vec![name()]
        }
        Route::LookUp | Route::CheckFence | Route::ForceRelease | Route::ForceLeave => vec![name()],
        Route::Get => vec![name(), consistency(), since(), wait()],
        Route::GetElection | Route::Why => vec![name(), consistency()],
        Route::History => vec![name(), limit(), before()],
        Route::Events => vec![prefix(), since(), last_event_id()],
        Route::List => vec![prefix(), limit(), after(), consistency()],
        Route::RenewSession | Route::EndSession => vec![session_id()],
        Route::GetSession => vec![session_id(), consistency()],
        Route::ListSessions => vec![limit(), after_session(), consistency()],
        Route::RemoveMember => vec![member_id(), force()],
        Route::Cluster
        | Route::Join
        | Route::Transfer
        | Route::Livez
        | Route::Readyz
        | Route::Metrics
        | Route::OpenApi
        | Route::Digest
        | Route::AcquireMany
        | Route::RenewMany
        | Route::ReleaseMany
        | Route::OpenSession => vec![],
    }
}

fn name() -> Parameter {
    let schema = text().min_length(Some(1)).build();
    let description = "The lock's name: 1 to 512 bytes of UTF-8 without control characters, percent-encoded once, a \
                       slash as %2F.";
    ParameterBuilder::new()
        .name("name")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn session_id() -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).build();
    ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The session's id, as it was given when the session was opened."))
        .schema(Some(schema))
        .build()
}

fn member_id() -> Parameter {
    ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some("The member's id."))
        .schema(Some(whole().minimum(Some(1)).maximum(Some((1_u64 << 53) - 1)).build()))
        .build()
}

fn force() -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())).build();
    query("force", "As `force` in the body, for those who cannot send one with DELETE.", schema)
}

fn after_session() -> Parameter {
    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(SESSION_ID)).build();
    query("after", "Only sessions behind this one: `next` of the page before.", schema)
}

fn prefix() -> Parameter {
    let description =
        "Only locks whose names begin with this, at most 512 bytes. A mere filter: it divides nothing.";
    query("prefix", description, text().build())
}

fn after() -> Parameter {
    let description =
        "Only locks whose names come after this one, at most 512 bytes: `next` of the page before.";
    query("after", description, text().build())
}

/// At most as many characters as a name has bytes; whether it fits in bytes, no schema can say.
fn text() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(LockName::LEN_MAX))
        .pattern(Some(NO_CONTROL))
}

fn since() -> Parameter {
    query("since", "Only what happened after this number: a `seq` of any answer.", whole().build())
}

fn last_event_id() -> Parameter {
    ParameterBuilder::new()
        .name("Last-Event-ID")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("The id of the last event that was seen. It goes before `since`."))
        .schema(Some(whole().build()))
        .build()
}

fn wait() -> Parameter {
    let schema = whole().maximum(Some(Wait::MAX_MS)).build();
    let description = "Answers when something has happened to the lock after `since` (or after now), or after so many \
                       milliseconds.";
    query("wait_ms", description, schema)
}

fn before() -> Parameter {
    query("before", "Only holds whose fence is below this one: `next` of the page before.", whole().build())
}

fn whole() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))
}

fn limit() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(LIST_LIMIT_MAX))
        .default(Some(LIST_LIMIT_DEFAULT.into()))
        .build();
    query("limit", "Most entries in the answer.", schema)
}

fn consistency() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["linearizable", "stale"]))
        .default(Some("linearizable".into()))
        .build();
    let description = "`linearizable`: the answer shows every change that was answered before. `stale`: what this \
                       node has, without asking anybody; the answer says so.";
    query("consistency", description, schema)
}

fn query(name: &str, description: &str, schema: Object) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}
