//! `gridc backend list|describe`: what a task may ask for, as the controller declares it.

use grid_types::api::{ActionDoc, BackendDoc};
use grid_types::{Code, decl};

use crate::cli::{Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out;
use crate::suggest::nearest;
use crate::table::{Table, facts};
use crate::text::one_line;

pub async fn list(global: &Global) -> Result<u8, Failure> {
    let backends = connect(global)?.backends().await?;
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &backends, |terminal| list_text(&backends.items, terminal))?;
    Ok(0)
}

pub async fn describe(global: &Global, name: &str) -> Result<u8, Failure> {
    let backend = match connect(global)?.backend(name).await {
        Err(error) if error.code() == Some(Code::NotFound) => {
            let near = nearest(name, decl::builtin().iter().map(|b| b.name));
            let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            return Err(Failure::NotFound(format!(
                "no such backend: {:?}{hint}; see gridc backend list",
                one_line(name)
            )));
        }
        answer => answer?,
    };
    let format = global.output.unwrap_or(Format::Table);
    out::print(format, &backend, |_| describe_text(&backend))?;
    Ok(0)
}

fn list_text(backends: &[BackendDoc], terminal: bool) -> String {
    let mut table = Table::new(&["NAME", "RUNS", "NEEDS", "ACTIONS"]);
    for backend in backends {
        let actions: Vec<_> = backend.actions.iter().map(|action| action.name.as_str()).collect();
        table.row([
            one_line(&backend.name),
            runs(backend).to_owned(),
            one_line(&backend.needs.join(",")),
            one_line(&actions.join(",")),
        ]);
    }
    table.render(terminal)
}

fn describe_text(backend: &BackendDoc) -> String {
    let head = facts(&[
        ("backend", one_line(&backend.name)),
        ("what", one_line(&backend.help)),
        ("runs", runs(backend).to_owned()),
        ("needs", one_line(&backend.needs.iter().chain(&backend.settings).cloned().collect::<Vec<_>>().join(", "))),
    ]);
    let actions = backend.actions.iter().map(|action| action_text(&backend.name, action));
    format!("{head}\n{}", actions.collect::<Vec<_>>().join("\n"))
}

/// Not a table: what fits no column is what somebody asked for here.
fn action_text(backend: &str, action: &ActionDoc) -> String {
    let mut text = format!("{}\n", example(backend, action));
    text.push_str(&format!("    {}\n", one_line(&action.help)));
    let choice = if action.effect_choice { " unless the task has another effect" } else { "" };
    text.push_str(&format!("    {}{choice}, timeout {}\n", action.effect.word(), action.timeout));
    for param in &action.params {
        let need = match (&param.default, param.required) {
            (_, true) => " (required)".to_owned(),
            (Some(default), false) => format!(" (default {default})"),
            (None, false) => String::new(),
        };
        text.push_str(&one_line(&format!("    --{}{need}: {}", param.name, param.help)));
        text.push_str(&format!("\n        {}: {}\n", one_line(&param.kind), one_line(&param.accepts())));
    }
    text
}

fn runs(backend: &BackendDoc) -> &'static str {
    match (backend.on_by_default, backend.needs.is_empty()) {
        (true, true) => "everywhere",
        (true, false) => "where installed",
        (false, _) => "if enabled",
    }
}

/// With what it cannot do without.
fn example(backend: &str, action: &ActionDoc) -> String {
    let params = action.params.iter().filter(|param| param.required).map(|param| {
        let value = param.choices.first().cloned().unwrap_or_else(|| param.name.to_uppercase());
        format!(" --{} {value}", param.name)
    });
    one_line(&format!("gridc job run -t all {backend} {}{}", action.name, params.collect::<String>()))
}
