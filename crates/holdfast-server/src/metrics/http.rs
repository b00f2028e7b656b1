//! What the HTTP side counts. Counting is a few additions to atomics: no lock, no allocation, no map.

use std::array;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_api::ErrorCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use crate::http::Route;

/// Upper bounds of the duration buckets, in seconds. The long ones are for attempts that wait.
const BOUNDS: [f64; 17] = [
    0.000_25,
    0.000_5,
    0.001,
    0.002_5,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    60.0,
    600.0,
    f64::INFINITY,
];
/// One for success, and one for each error code.
const CODES: usize = ErrorCode::ALL.len() + 1;
/// One for each route, and one for all other paths.
const ROUTES: usize = Route::ALL.len() + 1;

/// All that the HTTP side counts.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    in_flight: AtomicU64,
    connections: AtomicU64,
    routes: [RouteMetrics; ROUTES],
}

#[derive(Debug, Default)]
struct RouteMetrics {
    answers: [AtomicU64; CODES],
    hung_up: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
    sum_us: AtomicU64,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            in_flight: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            routes: array::from_fn(|_| RouteMetrics::default()),
        }
    }
}

impl HttpMetrics {
    /// A request has begun; none for a path that leads nowhere.
    pub(crate) fn begin(&self, route: Option<Route>) -> Observed<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let at = route.map_or(ROUTES - 1, |route| route as usize);
        Observed { in_flight: &self.in_flight, route: &self.routes[at], is_answered: false }
    }

    /// A client has connected; it counts until the value is dropped.
    pub(crate) fn connected(&self) -> impl Drop + use<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(&self.connections)
    }

    fn named_routes(&self) -> impl Iterator<Item = (&'static str, &RouteMetrics)> {
        let names = Route::ALL.map(Route::label).into_iter().chain(["none"]);
        names.zip(&self.routes)
    }
}

struct Connected<'a>(&'a AtomicU64);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request in flight. Dropped without an answer, it counts as one whose client has hung up.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    in_flight: &'a AtomicU64,
    route: &'a RouteMetrics,
    is_answered: bool,
}

impl Observed<'_> {
    /// Answered: with success if there is no code.
    pub(crate) fn answered(mut self, code: Option<ErrorCode>, took: Duration) {
        self.is_answered = true;
        self.route.answers[code.map_or(0, |code| code as usize + 1)].fetch_add(1, Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len() - 1);
        self.route.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.route.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_answered {
            self.route.hung_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Collector for HttpMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_gauges(&mut encoder)?;
        self.encode_answers(&mut encoder)?;
        self.encode_hung_up(&mut encoder)?;
        self.encode_durations(&mut encoder)
    }
}

impl HttpMetrics {
    fn encode_gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges = [
            ("holdfast_http_requests_in_flight", "Requests that are being worked on.", &self.in_flight),
            ("holdfast_http_connections", "Open connections of clients.", &self.connections),
        ];
        for (name, help, value) in gauges {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn encode_answers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Answered requests by route, status and error code (ok for a success).";
        let mut metric =
            encoder.encode_descriptor("holdfast_http_requests", help, None, MetricType::Counter)?;
        for (route, numbers) in self.named_routes() {
            for (code, count) in numbers.named_answers() {
                let status = code.map_or(200, ErrorCode::status).to_string();
                let code = code.map_or("ok", ErrorCode::as_str);
                let labels = [("route", route), ("status", status.as_str()), ("code", code)];
                metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, u64, u64>(&count, None::<&Exemplar<_, _>>)?;
            }
        }
        Ok(())
    }

    fn encode_hung_up(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests whose client hung up before the answer.";
        let mut metric =
            encoder.encode_descriptor("holdfast_http_hung_up", help, None, MetricType::Counter)?;
        for (route, numbers) in self.named_routes() {
            let count = numbers.hung_up.load(Ordering::Relaxed);
            metric
                .encode_family(&[("route", route)])?
                .encode_counter::<NoLabelSet, u64, u64>(&count, None::<&Exemplar<_, _>>)?;
        }
        Ok(())
    }

    fn encode_durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let name = "holdfast_http_request_duration_seconds";
        let help = "From the head of a request to its answer, the wait in a queue included.";
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (route, numbers) in self.named_routes() {
            let buckets: Vec<_> =
                BOUNDS.iter().zip(&numbers.buckets).map(|(b, n)| (*b, n.load(Ordering::Relaxed))).collect();
            let count = buckets.iter().map(|(_, n)| n).sum();
            let sum = Duration::from_micros(numbers.sum_us.load(Ordering::Relaxed)).as_secs_f64();
            metric
                .encode_family(&[("route", route)])?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

impl RouteMetrics {
    /// Success always; an error once it has happened.
    fn named_answers(&self) -> impl Iterator<Item = (Option<ErrorCode>, u64)> {
        let count_of = |at: usize| self.answers[at].load(Ordering::Relaxed);
        let errors = ErrorCode::ALL.into_iter().map(move |code| (Some(code), count_of(code as usize + 1)));
        std::iter::once((None, count_of(0))).chain(errors.filter(|(_, count)| *count > 0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn text_of(metrics: HttpMetrics) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(Arc::new(metrics)));
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn answers_are_counted_by_route_and_code() {
        let metrics = HttpMetrics::default();
        for code in ErrorCode::ALL {
            metrics.begin(Some(Route::Acquire)).answered(Some(code), Duration::from_millis(3));
        }
        metrics.begin(None).answered(Some(ErrorCode::NotFound), Duration::ZERO);
        let text = text_of(metrics);
        let all = format!(
            "holdfast_http_request_duration_seconds_bucket{{route=\"/v1/locks/{{name}}/acquire\",le=\"0.005\"}} {}\n",
            ErrorCode::ALL.len()
        );
        for line in [
            all.as_str(),
            "holdfast_http_requests_total{route=\"/v1/locks/{name}/acquire\",status=\"409\",code=\"held\"} 1\n",
            "holdfast_http_requests_total{route=\"/v1/locks/{name}/acquire\",status=\"200\",code=\"ok\"} 0\n",
            "holdfast_http_requests_total{route=\"none\",status=\"404\",code=\"not_found\"} 1\n",
            "holdfast_http_request_duration_seconds_bucket{route=\"/v1/locks/{name}/acquire\",le=\"0.0025\"} 0\n",
            "holdfast_http_requests_in_flight 0\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_client_that_hangs_up_is_counted_and_no_longer_in_flight() {
        let metrics = HttpMetrics::default();
        drop(metrics.begin(Some(Route::Get)));
        let text = text_of(metrics);
        assert!(text.contains("holdfast_http_hung_up_total{route=\"/v1/locks/{name}\"} 1\n"), "{text}");
        assert!(text.contains("holdfast_http_requests_in_flight 0\n"), "{text}");
    }
}
