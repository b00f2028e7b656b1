//! JSON on the wire: requests, answers, error codes.
