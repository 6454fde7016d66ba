//! What every store must do, run on each kind of store, and what belongs to one kind only.

mod world;

mod accept;
mod bodies;
mod calls;
mod completed_calls;
mod conversations;
mod events;
mod groups;
mod handing;
mod memory;
mod migrating;
mod opening;
mod postgres;
mod reads;
mod relayed;
mod repeats;
mod retention;
mod tenants;
mod tools;
mod turns;

mod against_model;
mod conversations_against_model;
mod tools_against_model;
mod weakened;
