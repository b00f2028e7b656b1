//! The client library: guards that renew themselves and know when they are lost.
