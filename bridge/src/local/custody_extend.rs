//! `leases_custody_extend`: a promise of this process, so the daemon isn't asked.

use portreeve_leases::{CustodyOutput, LeasesCustodyExtend};
use portreeve_registry::{Answer, Args, Failure, local_answer, local_input};

use crate::house::Bridge;

pub(super) fn answer(bridge: &Bridge, args: Args) -> Result<Answer, Failure> {
    let input = local_input::<LeasesCustodyExtend>(args)?;
    let (custody_ends_at, changed) =
        bridge.custody.extend(&input.credential_handle, input.custody_minutes.get())?;
    local_answer::<LeasesCustodyExtend>(&CustodyOutput { custody_ends_at }, changed)
}
