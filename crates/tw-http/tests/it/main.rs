//! The surfaces over real sockets: a real upstream listener, real tool listeners, a real store.

mod app;

mod basics;

mod bad_input;
mod bad_tools;
mod canary;
mod client_tools;
mod coding_agents;
mod compact;
mod completed_calls;
mod conversations;
mod cors;
mod counting;
mod driver_panics;
mod end_user;
mod golden;
mod keys;
mod leave;
mod limits;
mod local_models;
mod memory;
mod metrics;
mod nine_pairs;
mod openapi;
mod own_message;
mod passed_headers;
mod provider_tools;
mod quirks;
mod rate;
mod record;
mod recover;
mod relayed;
mod repeat;
mod repeated_calls;
mod replay;
mod responses;
mod socket;
mod structured;
mod surface_quirks;
mod surface_shapes;
mod tenants;
mod tools;
mod upstreams;
mod webhooks;
