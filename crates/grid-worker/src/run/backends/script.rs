//! `script`: the caller's text, in a private file, read by an interpreter of the operator's list.
//!
//! The file is in the lease's own folder, which goes with the lease. Its path comes directly behind the interpreter and begins with `/`, so that no
//! interpreter takes it, or the text, for an option.

use std::io::Write;
use std::sync::Arc;

use grid_types::decl::Params;

use super::{Backend, Run, invocation, params};
use crate::allow::{Allow, Programs, Variables};
use crate::run::environment::Environment;
use crate::run::lease::{EffectGate, LeaseContext};

pub(super) struct Script {
    interpreters: Arc<Programs>,
    variables: Arc<Variables>,
}

impl Script {
    pub(super) fn new(allow: &Allow, environment: &Environment) -> Self {
        let interpreters = Programs::new("--allow-interpreter", &allow.interpreters, environment.path());
        let variables = Variables::new(&allow.env, &interpreters);
        Self { interpreters: Arc::new(interpreters), variables: Arc::new(variables) }
    }
}

impl Backend for Script {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let (interpreters, variables) = (Arc::clone(&self.interpreters), Arc::clone(&self.variables));
        Box::pin(async move {
            if action != "run" {
                return Err(format!("script has no action {action}"));
            }
            let asked = params::required_text(&given, "interpreter")?.to_owned();
            let program = context.block(move |_| interpreters.resolve(&asked)).await??;
            let file = context.folder()?.join("script");
            let (to, text) = (file.clone(), params::required_text(&given, "script")?.to_owned());
            let write =
                move |_: &EffectGate| grid_folder::create_new(&to).and_then(|mut file| file.write_all(text.as_bytes()));
            context.block(write).await?.map_err(|error| format!("cannot write the script: {error}"))?;
            let file = file.to_str().ok_or("the data folder has a path that is no text")?;
            let call = invocation::call(&program, &[file], &given, &variables)?;
            invocation::run(&context, &call, &given, "(script)").await
        })
    }
}
