//! Parses the values of flags that say what a worker may run.

pub fn variable(text: &str) -> Result<String, String> {
    grid_worker::check_variable_name(text).map(|()| text.to_owned())
}

pub fn allowed_program(text: &str) -> Result<String, String> {
    grid_worker::allow::check_program(text).map(|()| text.to_owned())
}

pub fn allowed_path(text: &str) -> Result<String, String> {
    grid_worker::allow::check_path(text).map(|()| text.to_owned())
}

pub fn allowed_connect(text: &str) -> Result<String, String> {
    grid_worker::allow::check_host(text).map(|()| text.to_owned())
}

pub fn allowed_variable(text: &str) -> Result<String, String> {
    grid_worker::allow::check_variable(text).map(|()| text.to_owned())
}

pub fn backend(text: &str) -> Result<String, String> {
    if grid_types::decl::backend(text).is_some() {
        return Ok(text.to_owned());
    }
    let known: Vec<_> = grid_types::decl::builtin().iter().map(|b| b.name).collect();
    Err(format!("unknown backend; known: {}", known.join(", ")))
}
