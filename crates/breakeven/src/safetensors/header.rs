//! The header of a safetensors file: which tensor lies where. Nothing in it is trusted.

use std::fmt;
use std::ops::Range;

use breakeven_ir::DType;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// Bytes before the header, which hold its length.
const PREFIX: usize = 8;

/// A tensor of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    /// As the file calls it.
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Where its bytes lie, counted from the beginning of the file.
    pub bytes: Range<usize>,
}

/// Every tensor of `file` in order of name. Their bytes lie in the file, fit their shapes, do not overlap and leave
/// nothing out; otherwise a sentence about what is wrong.
pub(super) fn read(file: &[u8]) -> Result<Vec<Entry>, String> {
    let data_at = end_of_header(file)?;
    let Header(described) = serde_json::from_slice(&file[PREFIX..data_at]).map_err(|e| {
        format!("its header does not describe tensors: {e}; the file is damaged or no safetensors file")
    })?;
    let mut entries = described.into_iter().map(|d| d.entry(data_at, file.len())).collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|e| (e.bytes.start, e.bytes.end));
    check_cover(&entries, data_at..file.len())?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    match entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(format!("its header names tensor '{}' twice", pair[0].name)),
        None => Ok(entries),
    }
}

/// The element type that the file calls `name`; none where this library has no such type.
pub(super) fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name))
}

fn end_of_header(file: &[u8]) -> Result<usize, String> {
    let Some((prefix, rest)) = file.split_first_chunk::<PREFIX>() else {
        return Err(format!("{} bytes are too few for a safetensors file", file.len()));
    };
    let length = u64::from_le_bytes(*prefix);
    match usize::try_from(length) {
        Ok(length) if length <= rest.len() => Ok(PREFIX + length),
        _ => Err(format!(
            "its header should have {length} bytes but only {} follow; the file is truncated or no safetensors file",
            rest.len()
        )),
    }
}

/// Entries in order of place must follow each other without gap, from the first byte of data to the last.
fn check_cover(entries: &[Entry], data: Range<usize>) -> Result<(), String> {
    let mut end = data.start;
    for entry in entries {
        if entry.bytes.start < end {
            return Err(format!("tensor '{}' overlaps the tensor before it", entry.name));
        }
        if entry.bytes.start > end {
            return Err(format!("bytes {end} to {} belong to no tensor", entry.bytes.start));
        }
        end = entry.bytes.end;
    }
    if end == data.end { Ok(()) } else { Err(format!("{} bytes follow after the last tensor", data.end - end)) }
}

/// What the header says of one tensor.
#[derive(Deserialize)]
struct Described {
    #[serde(skip)]
    name: String,
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Described {
    fn entry(self, data_at: usize, file_bytes: usize) -> Result<Entry, String> {
        let Described { name, dtype, shape, data_offsets: [start, end] } = self;
        if start > end {
            return Err(format!("tensor '{name}' ends at {end}, before it starts at {start}"));
        }
        let data_bytes = (file_bytes - data_at) as u64;
        if end > data_bytes {
            return Err(format!(
                "tensor '{name}' ends at byte {end} of {data_bytes}: the file is truncated or damaged"
            ));
        }
        let expected = self::dtype(&dtype).map(|dtype| bytes_of(&shape, dtype));
        match expected {
            Some(bytes) if bytes != Some(end - start) => {
                let held = end - start;
                Err(format!("tensor '{name}' of {dtype} {shape:?} holds {held} bytes, which does not fit its shape"))
            }
            _ => Ok(Entry { name, dtype, shape, bytes: data_at + start as usize..data_at + end as usize }),
        }
    }
}

fn bytes_of(shape: &[u64], dtype: DType) -> Option<u64> {
    shape.iter().try_fold(dtype.bytes() as u64, |bytes, &extent| bytes.checked_mul(extent))
}

/// The header as a list, so that a name that is given twice does not get lost.
struct Header(Vec<Described>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        from.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut all = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
            } else {
                all.push(Described { name, ..map.next_value()? });
            }
        }
        Ok(Header(all))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A safetensors file with `header` and `data_bytes` bytes 0, 1, 2, ..
    pub fn file(header: &str, data_bytes: usize) -> Vec<u8> {
        let data = (0..data_bytes).map(|i| i as u8);
        (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(data).collect()
    }

    fn check(header: &str, data_bytes: usize, expected: &str) {
        let error = read(&file(header, data_bytes)).expect_err(header);
        assert!(error.contains(expected), "{header}: {error}");
    }

    const TWO: &str = r#"{"__metadata__":{"format":"pt"},
        "b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
        "a":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}  "#;

    #[test]
    fn tensors_are_found_where_they_lie() {
        let whole = file(TWO, 16);
        let entries = read(&whole).expect("it is right");
        assert_eq!(entries.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((&whole[entries[1].bytes.clone()], &entries[1].shape), (&[0, 1, 2, 3, 4, 5, 6, 7][..], &vec![2]));
        assert_eq!(read(&file("{}", 0)), Ok(vec![]));
        let empty = r#"{"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}"#;
        assert_eq!(read(&file(empty, 0)).expect("nothing is fine").len(), 1);
    }

    #[test]
    fn a_file_cut_anywhere_is_refused() {
        let whole = file(TWO, 16);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "cut to {length}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert_eq!(read(&longer), Err("1 bytes follow after the last tensor".into()));
    }

    #[test]
    fn a_changed_byte_is_refused_or_harmless() {
        let whole = file(TWO, 16);
        for (at, value) in (0..whole.len()).flat_map(|at| [0, b'"', b'9', 0xff].map(|value| (at, value))) {
            let mut changed = whole.clone();
            changed[at] = value;
            for entry in read(&changed).unwrap_or_default() {
                assert!(entry.bytes.start <= entry.bytes.end && entry.bytes.end <= whole.len(), "{at}: {entry:?}");
            }
        }
    }

    #[test]
    fn a_wrong_header_is_named() {
        check("", 0, "does not describe tensors");
        check("[]", 0, "one entry for each tensor");
        check("\u{7f}\u{0}", 4, "does not describe tensors");
        check(&"[".repeat(100_000), 0, "does not describe tensors");
        check(r#"{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}"#, 4, "does not describe tensors");
        check(r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, 4, "integer `-1`");
        check(r#"{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}"#, 4, "floating point `1.5`");
        check(r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4, "missing field `data_offsets`");
        let mut not_utf8 = file(TWO, 16);
        not_utf8[12] = 0xff;
        assert!(read(&not_utf8).is_err());
    }

    #[test]
    fn wrong_places_are_named() {
        let two = |a: &str, b: &str| {
            format!(
                r#"{{"a":{{"dtype":"F32","shape":[1],"data_offsets":{a}}},"b":{{"dtype":"F32","shape":[1],"data_offsets":{b}}}}}"#
            )
        };
        check(&two("[0,4]", "[2,6]"), 8, "'b' overlaps");
        check(&two("[0,4]", "[0,4]"), 4, "'b' overlaps");
        check(&two("[0,4]", "[8,12]"), 12, "belong to no tensor");
        check(&two("[4,8]", "[8,12]"), 12, "belong to no tensor");
        check(&two("[0,4]", "[4,8]"), 7, "'b' ends at byte 8 of 7");
        check(&two("[4,0]", "[4,8]"), 8, "before it starts");
        check(&two("[0,4]", "[4,9]"), 9, "does not fit its shape");
        check(&two("[18446744073709551612,18446744073709551615]", "[0,4]"), 4, "ends at byte 18446744073709551615");
        check(
            r#"{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[1,2]}}"#,
            2,
            "twice",
        );
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let huge = u64::MAX / 8;
        let part = |i: u64| {
            format!(r#""{i}":{{"dtype":"U8","shape":[{huge}],"data_offsets":[{},{}]}}"#, i * huge, (i + 1) * huge)
        };
        let header = format!("{{{}}}", (0..8).map(part).collect::<Vec<_>>().join(","));
        check(&header, 0, "truncated or damaged");
        check(
            r#"{"a":{"dtype":"F64","shape":[9223372036854775807,4],"data_offsets":[0,8]}}"#,
            8,
            "does not fit its shape",
        );
    }
}
