//! Guards L2: `apply` stores codes and data, never words. Every text in a history row or in the state must have come in
//! through an entry, because text that the program makes differs between versions, and with it the hash of the history.

use std::collections::BTreeSet;

use minicbor::data::Type;
use minicbor::decode::Error;
use minicbor::{Decoder, Encode};

use crate::encoding::to_vec;
use crate::state::State;

/// Every text within an encoded value.
pub(crate) fn texts_of<T: Encode<()>>(value: &T) -> BTreeSet<String> {
    let bytes = to_vec(value);
    let mut found = BTreeSet::new();
    let mut decoder = Decoder::new(&bytes);
    walk(&mut decoder, &mut found).unwrap();
    assert_eq!(decoder.position(), bytes.len());
    found
}

fn walk(decoder: &mut Decoder<'_>, found: &mut BTreeSet<String>) -> Result<(), Error> {
    match decoder.datatype()? {
        Type::String => drop(found.insert(decoder.str()?.to_owned())),
        Type::Array => {
            for _ in 0..decoder.array()?.unwrap() {
                walk(decoder, found)?;
            }
        }
        Type::Map => {
            for _ in 0..decoder.map()?.unwrap() * 2 {
                walk(decoder, found)?;
            }
        }
        Type::StringIndef | Type::ArrayIndef | Type::MapIndef | Type::Tag => panic!("no value of ours is encoded so"),
        _ => decoder.skip()?,
    }
    Ok(())
}

/// Every text in the stored parts of the state.
pub(crate) fn texts_of_state(state: &State) -> BTreeSet<String> {
    let parts = state.to_parts();
    let mut found = texts_of(&parts.meta);
    found.extend(parts.nodes.iter().flat_map(texts_of));
    for job in &parts.jobs {
        found.extend(texts_of(&job.head));
        found.extend(job.cells.iter().flat_map(|(_, cell)| texts_of(cell)));
    }
    found.extend(parts.stubs.iter().flat_map(|(_, stub)| texts_of(stub)));
    found.extend(parts.keys.iter().flat_map(texts_of));
    found
}
