//! `audience = { of = ["to", "cc"], groups = "people.toml" }`: the recipients of a call, and what they may read.

use std::sync::Arc;

use ifc::{Dimension, Label, Lattice};
use policy::{Audience, Readers};

use crate::suggestions::listed;
use crate::toml_reader::{At, Context, Table, named_file, parse};
use crate::watch::Takes;

/// Reads the key of a tool or of an argument.
pub(crate) fn audience(table: &Table<'_>) -> Option<Audience> {
    let table = table.table("audience")?;
    table.needs(
        "of",
        "of = \"to\", the argument that names the recipients, or several in [\"to\", \"cc\"]",
    );
    table.needs(
        "groups",
        "groups = \"people.toml\", the file that says who may read what",
    );
    let of = table.words("of");
    let readers = groups(&table);
    table.finish();
    Some(Audience {
        of: of?.iter().map(|name| name.value.to_owned()).collect(),
        readers: Arc::new(readers?),
        place: table.context.place(&table.span),
    })
}

/// `groups`: a file, or its tables in the place of it.
fn groups(table: &Table<'_>) -> Option<Readers> {
    table.takes("groups", Takes::String);
    table.takes("groups", Takes::Table);
    let value = table.value("groups")?;
    if value.get_ref().is_table() {
        let inner = table.table("groups")?;
        return Some(readers(&inner));
    }
    let (_, file) = named_file(table, "groups")?;
    let context = Context {
        file: &file,
        ..table.context
    };
    let document = parse(context)?;
    let what = "a file of readers".to_owned();
    Some(readers(&Table::new(
        context,
        0..0,
        document.get_ref(),
        what,
    )))
}

/// `[groups] GROUP = ["NAME", …]` and `[readers] NAME = ["GROUP", …]`. The label of a group is that of the lattice with its
/// name. A group without one has no meaning here: a directory has many.
fn readers(table: &Table<'_>) -> Readers {
    let mut readers = Readers::default();
    let Some(lattice) = table.context.lattice else {
        return readers;
    };
    let warn = |at: &At<&str>, message: &str, help: &str| {
        let message = format!("'{}' {message}", at.value);
        let Context { sink, file, .. } = table.context;
        sink.warning(file, &at.span, message, help);
    };
    let check = |name: &At<&str>| {
        if !Readers::is_name(name.value) {
            let help = "write ann@example.org, @example.org for all of a domain, or a name of another kind like #hr";
            warn(name, "is the name of no recipient", help);
        }
    };
    let groups = table.named_lists("groups");
    let is_group = |name: &str| groups.iter().any(|(group, _)| group.value == name);
    for (group, members) in &groups {
        let label = label_of(lattice, group.value).unwrap_or_default();
        for member in members {
            check(member);
            if is_group(member.value.trim_start_matches('@')) {
                let help = "a group has no groups in it; name their members";
                warn(member, "is a group, and no recipient", help);
            }
            readers.add(member.value, &label);
        }
    }
    for (name, of) in table.named_lists("readers") {
        check(&name);
        for group in &of {
            if label_of(lattice, group.value).is_none() && !is_group(group.value) {
                let help =
                    "name a group as its label is named after the colon, like hr for readers:hr";
                warn(group, "is no label, and no group", help);
            }
        }
        let of = of.iter().filter_map(|group| label_of(lattice, group.value));
        readers.add(name.value, &of.collect());
    }
    table.finish();
    let whole = lattice.whole(Dimension::Confidentiality);
    let left_out = whole.beyond(&readers.all());
    if !left_out.is_bottom() {
        let names = lattice.describe(&left_out);
        let names = listed(names.iter().map(String::as_str));
        let message = format!("no recipient may read {names}");
        let help = "name a group as its label is named after the colon, like hr for readers:hr";
        table
            .context
            .sink
            .warning(table.context.file, &table.span, message, help);
    }
    readers
}

/// What the members of a group may read.
fn label_of(lattice: &Lattice, group: &str) -> Option<Label> {
    let names = [
        format!("{}:{group}", Lattice::READERS),
        format!("secret:{group}"),
        group.to_owned(),
    ];
    let secret = lattice.whole(Dimension::Confidentiality);
    let mut labels = names.iter().filter_map(|name| lattice.label(name).ok());
    labels.find(|label| label.flows_to(&secret))
}
