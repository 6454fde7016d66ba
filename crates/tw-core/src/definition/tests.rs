mod check;
mod response;
pub(crate) mod sample;
mod schemas;
mod tool;
