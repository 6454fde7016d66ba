mod check;
mod masking;
mod response;
pub(crate) mod sample;
mod schemas;
mod tool;
