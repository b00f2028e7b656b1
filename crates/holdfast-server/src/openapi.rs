//! The service's description of itself (OpenAPI 3.1), made from the table of routes, the wire types and the table of
//! error codes.

mod operation;
mod responses;

use holdfast_api::{
    AcquireManyRequest, AcquireRequest, AttemptRequest, AttemptStatus, CampaignRequest, CheckRequest,
    Cluster, Digest, Election, EventReset, FenceCheck, ForceLeaveRequest, ForceLeft, ForceReleaseRequest,
    ForceReleased, Grant, GrantMany, HandOverRequest, HandedOver, Health, JoinRequest, Joined, Leadership,
    LimitSet, Lock, LockEvent, LockList, MemberRemoved, OpenSessionRequest, PastHolds, Problem,
    ProclaimRequest, ReleaseManyRequest, ReleaseRequest, Released, ReleasedMany, RemoveMemberRequest,
    RenewManyRequest, RenewRequest, ResignRequest, Session, SessionEnded, SessionInfo, SessionList,
    SessionTokenRequest, SetLimitRequest, TransferRequest, Transferred, Why,
};
use utoipa::OpenApi;
use utoipa::openapi::HttpMethod;

use self::operation::operation;
use crate::http::Route;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Holdfast",
        description = "A replicated lock service: leases with fencing tokens. Names of locks stand percent-encoded in \
                       paths, a slash as %2F; they are decoded once and never normalised. Unknown fields and query \
                       parameters are refused. Spans are whole milliseconds. Every path also takes OPTIONS, and HEAD \
                       where it takes GET. Any request may carry an `x-request-id` (printable ASCII, at most 128 \
                       characters); the answer has it, or one that the service made.",
        license(name = "Apache-2.0")
    ),
    components(schemas(
        AcquireManyRequest,
        AcquireRequest,
        CampaignRequest,
        Cluster,
        Digest,
        Election,
        Grant,
        HandOverRequest,
        HandedOver,
        GrantMany,
        Health,
        Leadership,
        LimitSet,
        Lock,
        LockList,
        OpenSessionRequest,
        Problem,
        ProclaimRequest,
        Released,
        ReleasedMany,
        ReleaseManyRequest,
        ReleaseRequest,
        RenewManyRequest,
        RenewRequest,
        ResignRequest,
        Session,
        SessionEnded,
        SessionInfo,
        SessionList,
        SessionTokenRequest,
        SetLimitRequest,
        AttemptRequest,
        AttemptStatus,
        CheckRequest,
        EventReset,
        FenceCheck,
        ForceLeaveRequest,
        ForceLeft,
        ForceReleaseRequest,
        ForceReleased,
        LockEvent,
        PastHolds,
        Why,
        JoinRequest,
        Joined,
        MemberRemoved,
        RemoveMemberRequest,
        TransferRequest,
        Transferred,
    ))
)]
struct Schemas;

/// The description as JSON.
pub(crate) fn describe() -> Vec<u8> {
    let mut api = Schemas::openapi();
    for route in Route::ALL {
        let method = match route.method() {
            hyper::Method::POST => HttpMethod::Post,
            hyper::Method::DELETE => HttpMethod::Delete,
            _ => HttpMethod::Get,
        };
        api.paths.add_path_operation(route.template(), vec![method], operation(route));
    }
    serde_json::to_vec(&api).expect("a description has text keys only")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use holdfast_api::ErrorCode;
    use serde_json::Value;

    use super::*;

    fn description() -> Value {
        serde_json::from_slice(&describe()).unwrap()
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let api = description();
        let mut described = BTreeSet::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert((path.clone(), method.to_uppercase()));
            }
        }
        let routes: BTreeSet<_> =
            Route::ALL.map(|route| (route.template().to_owned(), route.method().to_string())).into();
        assert_eq!(described, routes);
    }

    #[test]
    fn every_error_code_is_named_by_some_response_of_its_status() {
        let api = description();
        let mut described = BTreeSet::new();
        for item in api["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let text = response["description"].as_str().unwrap();
                    let named = ErrorCode::ALL.into_iter().filter(|code| {
                        code.status().to_string() == *status && text.contains(&format!("`{}`", code.as_str()))
                    });
                    described.extend(named.map(ErrorCode::as_str));
                }
            }
        }
        assert_eq!(described, BTreeSet::from(ErrorCode::ALL.map(ErrorCode::as_str)));
    }

    #[test]
    fn every_error_is_a_problem_and_carries_a_request_id() {
        let api = description();
        for (path, item) in api["paths"].as_object().unwrap() {
            for (status, response) in item
                .as_object()
                .unwrap()
                .values()
                .flat_map(|operation| operation["responses"].as_object().unwrap().clone())
            {
                assert!(response["headers"]["x-request-id"].is_object(), "{path} {status}");
                let problem = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(problem == "#/components/schemas/Problem", status != "200", "{path} {status}");
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let text = String::from_utf8(describe()).unwrap();
        let api = description();
        for target in text.split("\"#/components/schemas/").skip(1) {
            let name = target.split('"').next().unwrap();
            assert!(api["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
