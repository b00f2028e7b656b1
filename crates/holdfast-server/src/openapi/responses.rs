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
    let of_token = matches!(route, Route::Acquire | Route::Renew | Route::Release);
    let of_session = matches!(route, Route::OpenSession | Route::RenewSession | Route::EndSession);
    let changes = of_token || of_session || route == Route::SetLimit;
    let reads =
        matches!(route, Route::Get | Route::List | Route::GetSession | Route::ListSessions | Route::Readyz);
    match code {
        ErrorCode::InvalidArgument
        | ErrorCode::MethodNotAllowed
        | ErrorCode::TooLarge
        | ErrorCode::Internal => true,
        ErrorCode::NotFound => {
            of_token
                || matches!(route, Route::SetLimit | Route::Get | Route::RenewSession | Route::EndSession)
        }
        ErrorCode::RequestTimeout | ErrorCode::UnsupportedMediaType => changes,
        ErrorCode::Held | ErrorCode::WaitTimeout | ErrorCode::QueueFull | ErrorCode::SessionFull => {
            route == Route::Acquire
        }
        ErrorCode::TokenConflict => matches!(route, Route::Acquire | Route::OpenSession),
        ErrorCode::SessionExpired => of_session || matches!(route, Route::Acquire | Route::Release),
        ErrorCode::SessionNotYours => {
            matches!(route, Route::Acquire | Route::RenewSession | Route::EndSession)
        }
        ErrorCode::SessionNotFound => {
            matches!(route, Route::Acquire | Route::RenewSession | Route::EndSession | Route::GetSession)
        }
        ErrorCode::LeaseExpired
        | ErrorCode::LeaseReleased
        | ErrorCode::LeaseForced
        | ErrorCode::NotHolder => of_token,
        ErrorCode::LimitConflict => route == Route::Acquire,
        ErrorCode::NoLimit => route == Route::SetLimit,
        ErrorCode::NoLeader => changes || reads,
        ErrorCode::NoSpace => changes,
        ErrorCode::UnknownOutcome => changes,
    }
}

fn success(route: Route) -> Response {
    let reference = |name| -> RefOr<Schema> { Ref::from_schema_name(name).into() };
    let (description, content_type, schema) = match route {
        Route::Acquire | Route::Renew => ("The grant.", "application/json", reference("Grant")),
        Route::Release => {
            ("It holds nothing and waits for nothing.", "application/json", reference("Released"))
        }
        Route::SetLimit => ("The limit in force.", "application/json", reference("LimitSet")),
        Route::OpenSession | Route::RenewSession => {
            ("The session.", "application/json", reference("Session"))
        }
        Route::EndSession => ("The session has ended.", "application/json", reference("SessionEnded")),
        Route::GetSession => ("The session.", "application/json", reference("SessionInfo")),
        Route::ListSessions => ("One page of sessions.", "application/json", reference("SessionList")),
        Route::Get => ("The lock.", "application/json", reference("Lock")),
        Route::List => ("One page of locks.", "application/json", reference("LockList")),
        Route::Cluster => ("The cluster.", "application/json", reference("Cluster")),
        Route::Livez => ("The node is alive.", "application/json", reference("Health")),
        Route::Readyz => ("The node can serve.", "application/json", reference("Health")),
        Route::Digest => ("Index and hash.", "application/json", reference("Digest")),
        Route::OpenApi => ("An OpenAPI 3.1 document.", "application/json", plain(Type::Object)),
        Route::Metrics => ("The numbers.", "text/plain", plain(Type::String)),
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
