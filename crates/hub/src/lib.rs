//! The hub's decisions: planner, sessions, trace. Sans-IO.
