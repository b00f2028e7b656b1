//! What each call answers.

use std::collections::BTreeMap;

use holdfast_api::ErrorCode;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder, Responses, ResponsesBuilder};
use utoipa::openapi::schema::{Schema, Type};
use utoipa::openapi::{ContentBuilder, Header, ObjectBuilder, Ref, RefOr};

use crate::http::{PROBLEM_JSON, REQUEST_ID_LEN_MAX, RETRY_AFTER_MAX_S, Route};

pub(super) fn responses(route: Route) -> Responses {
    let mut responses = ResponsesBuilder::new().response("200", success(route));
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for code in ErrorCode::ALL.into_iter().filter(|code| can_answer(route, *code)) {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, codes) in by_status {
        responses = responses.response(status.to_string(), failure(&codes));
    }
    responses.build()
}

/// Which errors a call can end with.
fn can_answer(route: Route, code: ErrorCode) -> bool {
    let acquires = matches!(route, Route::Acquire | Route::AcquireMany | Route::Campaign);
    let acquires_in_session = matches!(route, Route::Acquire | Route::Campaign);
    let ends_or_renews = matches!(route, Route::RenewSession | Route::EndSession);
    let of_one = matches!(
        route,
        Route::Acquire
            | Route::Renew
            | Route::Release
            | Route::Campaign
            | Route::RenewLead
            | Route::Proclaim
            | Route::Resign
            | Route::HandOver
    );
    let of_many = matches!(route, Route::AcquireMany | Route::RenewMany | Route::ReleaseMany);
    let of_token = of_one || of_many;
    let of_session = ends_or_renews || route == Route::OpenSession;
    let changes = of_token || of_session || route == Route::SetLimit;
    let forces = matches!(route, Route::ForceRelease | Route::ForceLeave);
    let asks = matches!(route, Route::LookUp | Route::CheckFence);
    let of_members = matches!(route, Route::Join | Route::RemoveMember | Route::Transfer);
    let changes = changes || forces || of_members;
    let looks = matches!(route, Route::Get | Route::GetElection | Route::History | Route::Why) || asks;
    let lists = matches!(route, Route::List | Route::ListSessions);
    match code {
        ErrorCode::InvalidArgument
        | ErrorCode::MethodNotAllowed
        | ErrorCode::TooLarge
        | ErrorCode::Internal => true,
        ErrorCode::NotFound => {
            of_members || of_one || looks || ends_or_renews || forces || route == Route::SetLimit
        }
        ErrorCode::RequestTimeout | ErrorCode::UnsupportedMediaType => changes || asks,
        ErrorCode::Held | ErrorCode::WaitTimeout | ErrorCode::QueueFull | ErrorCode::Deadlock => acquires,
        ErrorCode::TokenConflict => acquires || route == Route::OpenSession,
        ErrorCode::SessionExpired => {
            // Also of an attempt that a session had kept waiting.
            of_session || acquires || matches!(route, Route::Release | Route::Resign | Route::ReleaseMany)
        }
        ErrorCode::SessionFull => acquires_in_session,
        ErrorCode::AlreadyDone => route == Route::Acquire,
        ErrorCode::SessionNotYours => acquires_in_session || ends_or_renews,
        ErrorCode::SessionNotFound => acquires_in_session || ends_or_renews || route == Route::GetSession,
        ErrorCode::LeaseExpired | ErrorCode::LeaseReleased | ErrorCode::LeaseForced => of_token,
        ErrorCode::NotHolder => of_token || forces,
        ErrorCode::LimitConflict => acquires,
        ErrorCode::NoSuchCandidate => route == Route::HandOver,
        ErrorCode::NoLimit => route == Route::SetLimit,
        ErrorCode::NoLeader => {
            changes || looks || lists || matches!(route, Route::GetSession | Route::Readyz | Route::Events)
        }
        ErrorCode::NoSpace => changes,
        ErrorCode::UnknownOutcome => changes,
        ErrorCode::Unsafe => of_members,
        ErrorCode::ChangeInProgress => matches!(route, Route::Join | Route::RemoveMember),
    }
}

fn success(route: Route) -> Response {
    let reference = |name| -> RefOr<Schema> { Ref::from_schema_name(name).into() };
    let (description, content_type, schema) = match route {
        Route::Acquire | Route::Renew => ("The grant.", "application/json", reference("Grant")),
        Route::Release | Route::Resign => {
            ("It holds nothing and waits for nothing.", "application/json", reference("Released"))
        }
        Route::AcquireMany | Route::RenewMany => {
            ("The grants, in the order of the request.", "application/json", reference("GrantMany"))
        }
        Route::ReleaseMany => {
            ("They are free, or not waited for.", "application/json", reference("ReleasedMany"))
        }
        Route::SetLimit => ("The limit in force.", "application/json", reference("LimitSet")),
        Route::OpenSession | Route::RenewSession => {
            ("The session.", "application/json", reference("Session"))
        }
        Route::EndSession => ("The session has ended.", "application/json", reference("SessionEnded")),
        Route::GetSession => ("The session.", "application/json", reference("SessionInfo")),
        Route::ListSessions => ("One page of sessions.", "application/json", reference("SessionList")),
        Route::Get => ("The lock.", "application/json", reference("Lock")),
        Route::Campaign | Route::RenewLead | Route::Proclaim => {
            ("The lead.", "application/json", reference("Leadership"))
        }
        Route::HandOver => ("The candidate leads.", "application/json", reference("HandedOver")),
        Route::GetElection => ("The election.", "application/json", reference("Election")),
        Route::List => ("One page of locks.", "application/json", reference("LockList")),
        Route::Cluster => ("The cluster.", "application/json", reference("Cluster")),
        Route::Livez => ("The node is alive.", "application/json", reference("Health")),
        Route::Readyz => ("The node can serve.", "application/json", reference("Health")),
        Route::Digest => ("Index and hash.", "application/json", reference("Digest")),
        Route::OpenApi => ("An OpenAPI 3.1 document.", "application/json", plain(Type::Object)),
        Route::Metrics => ("The numbers.", "text/plain", plain(Type::String)),
        Route::Events => ("What happens, without an end.", "text/event-stream", plain(Type::String)),
        Route::LookUp => ("How it stands.", "application/json", reference("AttemptStatus")),
        Route::CheckFence => ("Whether it is current.", "application/json", reference("FenceCheck")),
        Route::ForceRelease => ("It holds the lock no more.", "application/json", reference("ForceReleased")),
        Route::ForceLeave => ("They wait no more.", "application/json", reference("ForceLeft")),
        Route::History => ("One page of the past.", "application/json", reference("PastHolds")),
        Route::Why => ("What is in the way.", "application/json", reference("Why")),
        Route::Join => ("It is a learner.", "application/json", reference("Joined")),
        Route::RemoveMember => ("It is no member.", "application/json", reference("MemberRemoved")),
        Route::Transfer => ("It leads and serves.", "application/json", reference("Transferred")),
    };
    ResponseBuilder::new()
        .description(description)
        .content(content_type, ContentBuilder::new().schema(Some(schema)).build())
        .header("x-request-id", request_id())
        .build()
}

fn plain(kind: Type) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(kind).build().into()
}

/// All codes of one status.
fn failure(codes: &[ErrorCode]) -> Response {
    let meanings: Vec<_> =
        codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.title())).collect();
    let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let mut response = ResponseBuilder::new()
        .description(meanings.join(" "))
        .content(PROBLEM_JSON, problem)
        .header("x-request-id", request_id());
    if codes.iter().any(|code| *code == ErrorCode::Held || code.status() == 503) {
        response = response.header("retry-after", retry_after());
    }
    if codes.contains(&ErrorCode::MethodNotAllowed) {
        let allow = HeaderBuilder::new()
            .schema(ObjectBuilder::new().schema_type(Type::String))
            .description(Some("The methods that the path takes."));
        response = response.header("allow", allow.build());
    }
    response.build()
}

fn request_id() -> Header {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(REQUEST_ID_LEN_MAX));
    let description = "Identifies the request in the logs: the client's own, or one that the service made.";
    HeaderBuilder::new().schema(schema).description(Some(description)).build()
}

fn retry_after() -> Header {
    let schema =
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(RETRY_AFTER_MAX_S));
    let description = "With `held` and with every 503: after how many seconds to try again.";
    HeaderBuilder::new().schema(schema).description(Some(description)).build()
}
