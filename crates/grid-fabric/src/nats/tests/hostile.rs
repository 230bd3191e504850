//! Anyone who may publish: garbage, foreign sessions, floods.
