//! What every store must do, run on each kind of store, and what belongs to one kind only.

mod world;

mod accept;
mod approvals;
mod blobs;
mod bodies;
mod callbacks;
mod calls;
mod completed_calls;
mod conversations;
mod copying;
mod events;
mod groups;
mod handing;
mod head_path;
mod imported;
mod items;
mod jobs;
mod keeping;
mod memory;
mod money;
mod opening;
mod postgres;
mod queued;
mod quotas;
mod races;
mod reads;
mod relayed;
mod repeats;
mod retention;
mod tenants;
mod tools;
mod turns;
mod webhooks;

mod against_model;
mod conversations_against_model;
mod tools_against_model;
mod weakened;
