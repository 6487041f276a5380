//! Configuration, label rules over structured text, limits and effects of tools.
