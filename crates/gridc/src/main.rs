//! The binary: everything is in the library, so that `grid demo` can show the same live view.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gridc::main(std::env::args_os().collect()))
}
