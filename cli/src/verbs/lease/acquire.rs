//! `portreeve lease acquire`.

use super::file::{self, Lease};
use crate::report::{Report, invalid};
use crate::session::Session;
use crate::text::safe;
use crate::values;
use portreeve_leases::{AcquireLease, AcquireRequest, Allocation, ReplacementPolicy};
use portreeve_records::{ClaimIdentity, ClaimMode, Named, PortNumber};
use portreeve_registry::{Failure, Secret};
use std::path::PathBuf;

const AFTER: &str = "\
Examples:
  portreeve lease acquire --project shop --component web --preferred-port 3000 --lease-file lease.json
  my-server --port \"$(jq .port lease.json)\" &
  portreeve lease confirm --lease-file lease.json --root-pid $! --wait

The lease's token proves that it is yours. It is printed with --json and written by --lease-file (which only
you can read), and nowhere else. A claim that is served already answers that, and exits 10.";

/// Hold a port for one endpoint of one component in one worktree, for a server that is about to start
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The project's name
    #[arg(long, value_parser = values::name)]
    project: Named,
    /// The component, such as web or api
    #[arg(long, value_parser = values::name)]
    component: Named,
    /// The worktree's directory [default: this one]
    #[arg(long, value_name = "DIRECTORY")]
    workspace_root: Option<PathBuf>,
    /// The endpoint of the component
    #[arg(long, value_parser = values::name, default_value = "default")]
    endpoint: Named,
    /// Give the port back a while after its last use, rather than keep it for the claim
    #[arg(long)]
    ephemeral: bool,
    /// The port that you would like; another is given if it is taken
    #[arg(long, value_name = "PORT", value_parser = values::port)]
    preferred_port: Option<PortNumber>,
    /// The only port that will do
    #[arg(long, value_name = "PORT", value_parser = values::port, conflicts_with = "preferred_port")]
    exact_port: Option<PortNumber>,
    /// Write the lease with its token to this file, for the commands that follow
    #[arg(long, value_name = "FILE")]
    lease_file: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, session: &Session, json: bool) -> Result<Report, Failure> {
    if args.lease_file.is_none() && !json {
        return Err(invalid("the lease's token has nowhere to go").next("add --lease-file FILE, or --json"));
    }
    let root = values::workspace(args.workspace_root.as_deref())?;
    let token = Secret::random();
    let request = AcquireRequest {
        claim: ClaimIdentity::new(args.project, root, args.component, args.endpoint),
        allocation: Allocation {
            mode: if args.ephemeral { ClaimMode::Ephemeral } else { ClaimMode::Sticky },
            preferred_port: args.preferred_port,
            exact_port: args.exact_port,
            replacement_policy: ReplacementPolicy::Never,
        },
        lease_token: Some(token.clone()),
        answer_running: Some(true),
    };
    let mut acquired = session.call::<AcquireLease>(&request).await?;
    let port = acquired.port;
    let mut text = match (acquired.lease_id, acquired.listening) {
        (None, Some(false)) => {
            format!("Port {port} is served for this claim already, but its process doesn't listen now.")
        }
        (None, _) => format!("Port {port} is served for this claim already."),
        (Some(_), _) => {
            let until = acquired.expires_at.as_deref().map_or("its lease ends".to_owned(), safe);
            format!("Port {port} is held until {until}: start the server on it, then confirm its process.")
        }
    };
    if let Some(instead_of) = &acquired.instead_of {
        text.push('\n');
        text.push_str(&safe(&instead_of.sentence()));
    }
    if let Some(lease_id) = acquired.lease_id {
        let lease_token = acquired.lease_token.take().unwrap_or(token);
        match &args.lease_file {
            Some(path) => {
                let lease = Lease { lease_id, lease_token, port, expires_at: acquired.expires_at.clone() };
                file::write(path, &lease)?;
                let path = safe(&path.to_string_lossy());
                text.push_str(&format!(
                    "\nportreeve lease confirm --lease-file {path} --root-pid PID --wait"
                ));
            }
            None => acquired.lease_token = Some(lease_token),
        }
    }
    Ok(Report::done(&acquired, text).unless(acquired.lease_id.is_some()))
}
