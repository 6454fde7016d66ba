//! The surfaces over real sockets: a real upstream listener, real tool listeners, a real store.

mod app;

mod basics;
