//! Checks a value by a JSON Schema, as far as our schemas go: a keyword that is not known here is an error, so that nothing is left unchecked.
//!
//! The crates for it bring forty others with them, for formats and remote references that we do not use.

use serde_json::Value;

/// Words about a value that restrict nothing.
const NOTES: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// Whether `value` is what the document `root` allows; if not, where and why.
pub fn validate(root: &Value, value: &Value) -> Result<(), String> {
    check(root, root, value, "")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let keywords = schema.as_object().ok_or_else(|| format!("{at}: a schema is an object"))?;
    for (keyword, operand) in keywords.iter().filter(|(keyword, _)| !NOTES.contains(&keyword.as_str())) {
        let is_met = match keyword.as_str() {
            "$ref" => return check(root, referred(root, operand)?, value, at),
            "oneOf" => list(operand)?.iter().filter(|one| check(root, one, value, at).is_ok()).count() == 1,
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    operand
                        .get(name)
                        .map_or(Ok(()), |schema| check(root, schema, property, &format!("{at}/{name}")))?;
                }
                true
            }
            "additionalProperties" => {
                let is_known = |name: &String| keywords["properties"].get(name).is_some();
                *operand == Value::Bool(true) || value.as_object().is_none_or(|object| object.keys().all(is_known))
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, operand, item, &format!("{at}/{index}"))?;
                }
                true
            }
            _ => keyword_holds(keyword, operand, value)?,
        };
        if !is_met {
            return Err(format!("{at}: {value} is against {keyword} {operand}"));
        }
    }
    Ok(())
}

fn keyword_holds(keyword: &str, operand: &Value, value: &Value) -> Result<bool, String> {
    let length = || value.as_array().map(Vec::len);
    let limit = || operand.as_u64().map(|limit| limit as usize);
    Ok(match keyword {
        "type" => match operand {
            Value::Array(types) => types.iter().any(|one| is_of_type(one, value)),
            one => is_of_type(one, value),
        },
        "const" => operand == value,
        "enum" => list(operand)?.contains(value),
        "required" => value.as_object().is_none_or(|object| {
            operand.as_array().into_iter().flatten().all(|name| object.contains_key(name.as_str().unwrap_or_default()))
        }),
        "minimum" => value.as_f64().is_none_or(|number| Some(number) >= operand.as_f64()),
        "maximum" => value.as_f64().is_none_or(|number| Some(number) <= operand.as_f64()),
        "minItems" => length().is_none_or(|length| Some(length) >= limit()),
        "maxItems" => length().is_none_or(|length| Some(length) <= limit()),
        "pattern" => value.as_str().is_none_or(|text| is_word_and_number(operand, text)),
        _ => return Err(format!("the keyword {keyword} is not known to this checker")),
    })
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

/// The one pattern that our schemas have: `^(chain-[1-9][0-9]*|idle-[0-9]+)$`.
fn is_word_and_number(pattern: &Value, text: &str) -> bool {
    assert_eq!(pattern, "^(chain-[1-9][0-9]*|idle-[0-9]+)$", "another pattern needs another check");
    let calls = text.strip_prefix("chain-").filter(|calls| !calls.starts_with('0'));
    let number = calls.or(text.strip_prefix("idle-")).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn referred<'a>(root: &'a Value, reference: &Value) -> Result<&'a Value, String> {
    let pointer =
        reference.as_str().and_then(|text| text.strip_prefix('#')).ok_or("only references within the schema")?;
    root.pointer(pointer).ok_or_else(|| format!("nothing is at {pointer}"))
}

fn list(operand: &Value) -> Result<&Vec<Value>, String> {
    operand.as_array().ok_or_else(|| format!("{operand} is no list"))
}
