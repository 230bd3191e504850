//! `command`: runs a program of the operator's list with the caller's argument vector.
//!
//! Not here: the list (`allow::programs`), arguments and exit codes (`invocation`), the effect class, which the caller chose and the
//! offer carries.

use std::sync::Arc;

use grid_types::decl::Params;

use super::{Backend, Run, invocation, params};
use crate::allow::{Allow, Programs, Variables};
use crate::run::environment::Environment;
use crate::run::lease::LeaseContext;

pub(super) struct Command {
    programs: Arc<Programs>,
    variables: Arc<Variables>,
}

impl Command {
    pub(super) fn new(allow: &Allow, environment: &Environment) -> Self {
        let programs = Programs::new("--allow-command", &allow.commands, environment.path());
        let variables = Variables::new(&allow.env, &programs);
        Self { programs: Arc::new(programs), variables: Arc::new(variables) }
    }
}

impl Backend for Command {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let (programs, variables) = (Arc::clone(&self.programs), Arc::clone(&self.variables));
        Box::pin(async move {
            if action != "run" {
                return Err(format!("command has no action {action}"));
            }
            let asked = params::required_text(&given, "program")?.to_owned();
            let program = context.block(move |_| programs.resolve(&asked)).await??;
            let call = invocation::call(&program, &[], &given, &variables)?;
            invocation::run(&context, &call, &given, "").await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use grid_types::decl::{self, Params};
    use grid_types::fault::Faults;
    use serde_json::json;

    use super::super::invocation;
    use crate::allow::{Programs, Variables};
    use crate::run::lease::Call;

    fn call(given: &serde_json::Value) -> Result<Call, String> {
        let mut faults = Faults::default();
        let run = decl::backend("command").unwrap().action("run").unwrap();
        let params: Params = run.check(given.as_object().unwrap(), "params", &mut faults);
        faults.finish(()).map_err(|faults| faults.to_string())?;
        let programs = Programs::new("--allow-command", &["x".to_owned()], "/bin".as_ref());
        let variables = Variables::new(&["A".to_owned()], &programs);
        invocation::call(Path::new("/bin/x"), &[], &params, &variables)
    }

    #[test]
    fn every_item_is_one_argument_as_it_is() {
        let hostile = [
            "-rf",
            "--",
            "a b",
            "$(id)",
            "`id`",
            ";id",
            "|id",
            "*",
            "~",
            "",
            "\"",
            "'",
            "\n",
            "\\",
            "é\u{202e}",
            "a=b",
        ];
        let call = call(&json!({"program": "x", "args": hostile})).unwrap();
        assert_eq!((call.program.as_str(), call.args.as_slice()), ("/bin/x", hostile.map(str::to_owned).as_slice()));
        assert_eq!((call.env.len(), call.folder, call.stdin), (0, None, None));
    }

    #[test]
    fn variables_folder_and_input_reach_the_call_and_nothing_else() {
        let given = json!({"program": "x", "env": {"A": "1 2"}, "cwd": "/srv", "stdin": "in\n", "args": [1, true]});
        let call = call(&given).unwrap();
        assert_eq!(call.args, ["1", "true"]);
        assert_eq!(call.env, [("A".to_owned(), "1 2".to_owned())]);
        assert_eq!((call.folder.unwrap().to_str(), call.stdin.as_deref()), (Some("/srv"), Some("in\n")));
    }

    #[test]
    fn a_variable_that_is_not_allowed_stops_the_call() {
        for name in ["LD_PRELOAD", "PATH", "B", "GRID_LEASE", "A-B"] {
            assert!(
                call(&json!({"program": "x", "env": {name: "1"}})).unwrap_err().contains("refused by this worker"),
                "{name}"
            );
        }
    }
}
