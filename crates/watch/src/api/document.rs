//! What is true of all calls in the API's description, and the page that shows it.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr, Required,
    ResponseBuilder, Schema,
};
use utoipa::{PartialSchema, ToSchema};

use super::App;
use crate::problem::{Kind, PROBLEM_JSON, Problem};

const ABOUT: &str = "Budgets of a node: how they stand, why they do not spend, and changes to them.\n\n\
    Amounts in answers are whole numbers of base units as text (1.25 USD is \"1250000\"); amounts in changes are decimal \
    text in the budget's unit (\"1.25\"), as in the budgets file. Ids are text. Times are ms since 1970 UTC. Errors are \
    application/problem+json (RFC 9457) and say what was found and what was expected.\n\n\
    The live stream at /v1/live is a WebSocket of binary frames; docs/api.md describes it.";

const TAGS: [(&str, &str); 5] = [
    ("budgets", "How budgets stand"),
    ("changes", "Budgets are made and changed. Everything is in the audit, with who and why"),
    ("audit", "What people changed, and how it is taken back"),
    (
        "fix",
        "FIX sessions: how they stand, and what operators do to them. Each act is in the audit, with who and why",
    ),
    ("node", "How the node itself is"),
];

/// Calls that need no token.
const PUBLIC: [&str; 2] = ["/healthz", "/readyz"];
/// Name of the way to say who asks.
const BEARER: &str = "bearer";

/// Adds what every call has: the errors of the door, and the token where the door wants one.
pub(super) fn complete(document: &mut OpenApi, version: &str, secured: bool) {
    document.info = InfoBuilder::new()
        .title("Weir")
        .version(version)
        .description(Some(ABOUT))
        .license(Some(LicenseBuilder::new().name("Apache-2.0").build()))
        .build();
    let tag =
        |(name, about): (&str, &str)| TagBuilder::new().name(name).description(Some(about)).build();
    document.tags = Some(TAGS.into_iter().map(tag).collect());
    document.extensions = Some(ExtensionsBuilder::new().add("x-problems", problems()).build());
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(Problem::name().into_owned(), Problem::schema());
    let mut schemas = Vec::new();
    Problem::schemas(&mut schemas);
    components.schemas.extend(schemas);
    at_least_one_field(components);
    if secured {
        let scheme = Http::builder().scheme(HttpAuthScheme::Bearer);
        let scheme = scheme
            .description(Some("A token of admin.tokens_file: `read` for GET, `operate` for all"));
        components.add_security_scheme(BEARER, SecurityScheme::Http(scheme.build()));
    }
    for (path, item) in &mut document.paths.paths {
        let token = secured && !PUBLIC.contains(&path.as_str());
        let changes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        for operation in changes.into_iter().chain([&mut item.get]).flatten() {
            add_errors(operation, token, path);
            if token {
                let none = std::iter::empty::<String>();
                operation.security = Some(vec![SecurityRequirement::new(BEARER, none)]);
            }
        }
    }
}

/// Whether a call judges its parameters. Probes of an orchestrator may add what they like to theirs.
fn refuses_parameters(path: &str) -> bool {
    path.starts_with("/v1/") || path == "/metrics"
}

/// The calls that judge their parameters and have none in their query, as `/GET/v1/budgets/{id}`.
pub(super) fn without_parameters(document: &OpenApi) -> Arc<[String]> {
    let in_query = |one: &Parameter| matches!(one.parameter_in, ParameterIn::Query);
    let takes = |operation: &Operation| operation.parameters.iter().flatten().any(in_query);
    let of = |(path, item): (&String, &PathItem)| {
        let methods = [
            ("GET", &item.get),
            ("POST", &item.post),
            ("PUT", &item.put),
            ("PATCH", &item.patch),
            ("DELETE", &item.delete),
        ];
        let without = methods.map(|(name, operation)| {
            let operation = operation.as_ref().filter(|operation| !takes(operation));
            operation.map(|_| format!("/{name}{path}"))
        });
        without.into_iter().flatten()
    };
    let calls = document.paths.paths.iter().filter(|(path, _)| refuses_parameters(path));
    // The description does not describe itself.
    calls.flat_map(of).chain(["/GET/v1/openapi.json".to_string()]).collect()
}

/// What the `type` of an error leads to.
fn problems() -> Value {
    let one = |kind: &Kind| json!({"word": kind.word(), "status": kind.status().as_u16(), "title": kind.title()});
    Kind::ALL.iter().map(one).collect()
}

/// A change without a field is refused.
fn at_least_one_field(components: &mut Components) {
    for name in ["Changes", "Limits", "Factors", "BoundOrders"] {
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(name) {
            object.min_properties = Some(1);
        }
    }
}

fn add_errors(operation: &mut Operation, token: bool, path: &str) {
    let readiness = path == "/readyz";
    let is_of_one = operation
        .parameters
        .iter()
        .flatten()
        .any(|one| matches!(one.parameter_in, ParameterIn::Path));
    let changes = operation.request_body.is_some();
    if let Some(body) = &mut operation.request_body {
        body.required = Some(Required::True);
    }
    let errors = [
        ("400", refuses_parameters(path), "A parameter, a header or the body cannot be read"),
        ("401", token, "No token, or an unknown one"),
        ("403", token || changes, "The role, or the origin of the page, may not"),
        ("404", is_of_one, "Nothing has this number or handle"),
        ("408", changes, "The body did not come in time"),
        ("413", changes, "The body is too large"),
        ("415", changes, "The body is not JSON"),
        ("421", true, "The Host header names another door"),
        ("500", true, "An error of the node itself"),
        (
            "503",
            !token || changes || readiness,
            "The node stops, or is not ready, or its journal cannot seal",
        ),
    ];
    // Of a head that is not read to its end: the server of HTTP answers before any call does.
    let bare = [
        ("414", "The path with its query is too long; without a body"),
        ("431", "The head is too long, or has too many headers; without a body"),
    ];
    for (status, about) in bare {
        let response = ResponseBuilder::new().description(about).build();
        operation.responses.responses.insert(status.to_string(), RefOr::T(response));
    }
    for (status, applies, about) in errors {
        if applies && !operation.responses.responses.contains_key(status) {
            let content =
                ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            let response =
                ResponseBuilder::new().description(about).content(PROBLEM_JSON, content).build();
            operation.responses.responses.insert(status.to_string(), RefOr::T(response));
        }
    }
}

/// The description for people: a page of its own that reads `/v1/openapi.json`.
pub(super) fn pages() -> Router<App> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move {
            ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
        })
    };
    Router::new()
        .route("/docs/api", file("text/html; charset=utf-8", include_str!("page/page.html")))
        .route(
            "/docs/api/page.js",
            file("text/javascript; charset=utf-8", include_str!("page/page.js")),
        )
        .route("/docs/api/page.css", file("text/css; charset=utf-8", include_str!("page/page.css")))
}
