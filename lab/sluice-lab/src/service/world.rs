//! The shop: its records, and what its agent's tools do.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// The tools, as a request names them.
pub(super) const TOOLS: &str = include_str!("../../service/tools.json");
/// Where strangers may write, in the records.
const MARK: &str = "§";

/// The records, and the writes that were made. A write changes no record, so that a plan sees what a run sees.
#[derive(Debug, Clone)]
pub(super) struct World {
    records: Value,
    pub(super) writes: Vec<(String, Map<String, Value>)>,
}

impl World {
    /// A world in which a stranger has written this everywhere that strangers write.
    pub(super) fn with(text: Option<&str>) -> Result<Self> {
        let records = include_str!("../../service/world.json");
        let mut records = serde_json::from_str(records).context("service/world.json")?;
        let written = text.map(|text| format!(" {text}")).unwrap_or_default();
        write_at_marks(&mut records, &written);
        Ok(Self {
            records,
            writes: Vec::new(),
        })
    }

    /// What a tool returns.
    ///
    /// # Errors
    /// There is no such tool, or no such record.
    pub(super) fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> Result<Value> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let wanted = |name: &str| text(name).with_context(|| format!("{tool} needs {name}"));
        Ok(match tool {
            "get_customer" => self.one("customers", "id", wanted("customer_id")?)?,
            "find_customer" => self.one("customers", "email", wanted("email")?)?,
            "list_orders" => self.all("orders", "customer_id", wanted("customer_id")?),
            "get_order" => self.one("orders", "id", wanted("order_id")?)?,
            "get_shipment" => self.one("shipments", "order_id", wanted("order_id")?)?,
            "list_tickets" => {
                let mut tickets = self.all("tickets", "customer_id", wanted("customer_id")?);
                for ticket in tickets.as_array_mut().into_iter().flatten() {
                    ticket.as_object_mut().and_then(|it| it.remove("messages"));
                }
                tickets
            }
            "get_ticket" => self.one("tickets", "id", wanted("ticket_id")?)?,
            "read_inbox" => self.table("mails").clone(),
            "get_reviews" => self.table("reviews")[wanted("sku")?].clone(),
            "get_product" => self.one("products", "sku", wanted("sku")?)?,
            "search_products" => {
                let query = wanted("query")?.to_lowercase();
                let products = self.rows("products");
                let has = |it: &&Value| it["title"].to_string().to_lowercase().contains(&query);
                products.filter(has).cloned().collect()
            }
            "get_house_rules" => self.table("rules")[wanted("topic")?].clone(),
            "refund" | "cancel_order" | "create_return" | "change_address" | "change_email"
            | "give_voucher" | "send_mail" | "open_ticket" | "reply_ticket" | "close_ticket"
            | "escalate" | "add_note" => {
                self.writes.push((tool.to_owned(), arguments.clone()));
                json!({"done": true})
            }
            _ => bail!("there is no tool {tool}"),
        })
    }

    fn rows(&self, table: &str) -> impl Iterator<Item = &Value> {
        self.table(table).as_array().into_iter().flatten()
    }

    fn table(&self, name: &str) -> &Value {
        self.records.get(name).unwrap_or(&Value::Null)
    }

    fn all(&self, table: &str, key: &str, is: &str) -> Value {
        self.rows(table)
            .filter(|it| it[key] == is)
            .cloned()
            .collect()
    }

    fn one(&self, table: &str, key: &str, is: &str) -> Result<Value> {
        let mut rows = self.rows(table);
        let row = rows.find(|it| it[key] == is);
        row.cloned().with_context(|| format!("{table} has no {is}"))
    }
}

fn write_at_marks(value: &mut Value, written: &str) {
    match value {
        Value::String(text) => *text = text.replace(MARK, written),
        Value::Array(items) => items.iter_mut().for_each(|it| write_at_marks(it, written)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|it| write_at_marks(it, written)),
        _ => {}
    }
}
