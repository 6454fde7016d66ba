//! The codecs, driven through their public functions with recorded and invented answers.

mod anthropic;
mod cuts;
mod features;
mod histories;
mod properties;
mod quirks;
mod recordings;
mod responses;
mod round_trip;

mod answer;
mod shared;
