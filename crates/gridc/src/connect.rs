//! Creates the client that the options of every command describe.

use std::time::Duration;

use grid_client::{Client, Options};

use crate::cli::Global;
use crate::failure::Failure;

pub fn connect(global: &Global) -> Result<Client, Failure> {
    let options = Options { patience: Duration::from_millis(global.patience.ms()) };
    Ok(Client::new(global.server.0.clone(), options)?.with_token(global.token.clone()))
}
